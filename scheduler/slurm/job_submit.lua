-- Slurm's job_submit/lua script: hands each submitted job to Runcast and always lets it pass.
--
-- This file is the operator's; runcast.lua beside it is the code. A fault in runcast.lua or in the settings is logged and leaves
-- Slurm as if Runcast were not there. How to install, to join with a script of your own, and to take out: docs/slurm.md.

local settings = {
    socket = "/run/runcast/predict.sock", -- of `runcast serve`
    timeout_ms = 20, -- for connect, send and receive together; slurmctld waits no longer than this

    -- Three uses, each on its own. The time limit is never touched.
    note = "admin_comment", -- "admin_comment", "comment" or false: the forecast as text
    order = false, -- "site_factor", "nice", "priority" or false: shorter GPU-time first
    order_points = 1000, -- priority points for each doubling of p50 x GPUs; at most 32 doublings
    priority_top = 100000, -- only for order = "priority"
    plan = false, -- true: time_min from p90. Only with Slurm >= 23.11 and time_min_as_soft_limit, else refused
    slurm_version = "", -- as `scontrol --version` prints it; only for plan
    slurm_conf = "/etc/slurm/slurm.conf", -- where SchedulerParameters stands; only for plan

    gpus_tracked = false, -- as in the cluster file: true if a job without GPUs is known to ask for none
    -- What accounting will show for a job that does not say it, so that the forecast is asked for the same job.
    default_qos = "", -- "normal" on most clusters
    default_mem_mib_per_cpu = 0, -- DefMemPerCPU of slurm.conf; 0: none. A partition's own default goes first
    default_mem_mib_per_node = 0, -- DefMemPerNode, or the nodes' RealMemory where jobs get all of it
    groups_file = "/etc/group", -- group names; where they come from a directory: `getent group >` a file

    failures_allowed = 3, -- in a row; then no job asks for pause_s, doubled at each further failure
    pause_s = 10,
    longest_pause_s = 300,
    log_every_s = 10, -- at most one line for each reason in this time
    report_every = 1000, -- askings after which a line says how long they took; 0: never
}

local code = "/etc/slurm/runcast.lua"

local loaded, hook = pcall(function()
    return dofile(code).new(settings, slurm)
end)
if not loaded then
    slurm.log_error("%s", "runcast: not loaded, jobs pass without a forecast: " .. tostring(hook))
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    if loaded then
        hook.submit(job_desc, part_list)
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
