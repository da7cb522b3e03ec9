-- Tries job_submit.lua outside slurmctld: lua5.1 check.lua /etc/slurm/job_submit.lua
--
-- An invalid script is fatal for slurmctld when it starts, so: load it here first, submit one made-up job to it, and see what it
-- would log and set. Ends with 0 only where the script loads, lets jobs pass, and (with the service running) gives a forecast.

local path = assert(arg[1], "usage: lua check.lua /etc/slurm/job_submit.lua [USER]")

local function say(format, ...)
    io.write("slurmctld.log: ", string.format(format, ...), "\n")
end

-- What slurmctld gives a script, as far as Runcast uses it.
slurm = { SUCCESS = 0, ERROR = -1, NICE_OFFSET = 2147483648, log_info = say, log_error = say, log_debug = say }

local loaded, problem = loadfile(path)
if not loaded then
    io.write("INVALID: ", problem, "\n")
    os.exit(1)
end
local ran, result = pcall(loaded)
if not ran or result ~= slurm.SUCCESS or not slurm_job_submit or not slurm_job_modify then
    io.write("INVALID: ", ran and "it does not return slurm.SUCCESS or lacks a function" or result, "\n")
    os.exit(1)
end

local job = { user_name = arg[2] or os.getenv("USER") or "nobody", name = "runcast-check", time_limit = 60, min_nodes = 1 }
local before = {}
for name, value in pairs(job) do
    before[name] = value
end
local passed, code = pcall(slurm_job_submit, job, {}, 0)
if not passed or code ~= slurm.SUCCESS then
    io.write("FAULTY: the job would not pass: ", tostring(code), "\n")
    os.exit(1)
end
assert(pcall(slurm_job_submit, {}, {}, 0), "a job without any field would not pass")

local changed = false
for name, value in pairs(job) do
    if before[name] ~= value then
        changed = true
        io.write("would set ", name, " = ", tostring(value), "\n")
    end
end
if job.time_limit ~= 60 then
    io.write("FAULTY: the time limit was touched\n")
    os.exit(1)
end
io.write(changed and "OK: jobs pass, with a forecast\n" or "NO FORECAST: jobs pass as they are\n")
os.exit(changed and 0 or 2)
