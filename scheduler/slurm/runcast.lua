-- Asks the Runcast service for a forecast of a job that is being submitted, and writes what the operator chose into its request.
--
-- Loaded by job_submit.lua inside slurmctld. slurmctld waits for this code with locks held, so: one budget of milliseconds for
-- connect, send and receive together; a circuit breaker after repeated failures; every answer bounded in size; pcall around
-- everything; SUCCESS whatever happens. The time limit is never touched. Runs on Lua 5.1 to 5.4 and LuaJIT; needs lua-socket.

local runcast = {}

local MAX_TEXT_BYTES = 1024 -- of one field sent; longer names and folders are cut
local MAX_HEADER_BYTES = 4096
local MAX_ANSWER_BYTES = 16384 -- of one answer; a forecast takes about 200
local MAX_DEPTH = 4
local UNSET_FROM = 4294967293 -- Slurm's 32-bit NO_VAL and INFINITE lie above
local INFINITE = 4294967295
local LONGEST_FORECAST_S = 10 * 365 * 86400 -- an answer above is rubbish

-- JSON -------------------------------------------------------------------------------------------------------------------------

-- Returns the length of the UTF-8 sequence at byte i of text, or nil where there is none (RFC 3629: no overlong, no surrogate).
local function sequence_length(text, i)
    local a, b, c, d = string.byte(text, i, i + 3)
    local function tail(byte, low, high)
        return byte ~= nil and byte >= (low or 0x80) and byte <= (high or 0xBF)
    end
    if a < 0x80 then
        return 1
    elseif a >= 0xC2 and a <= 0xDF and tail(b) then
        return 2
    elseif a >= 0xE0 and a <= 0xEF and tail(b, a == 0xE0 and 0xA0, a == 0xED and 0x9F) and tail(c) then
        return 3
    elseif a >= 0xF0 and a <= 0xF4 and tail(b, a == 0xF0 and 0x90, a == 0xF4 and 0x8F) and tail(c) and tail(d) then
        return 4
    end
    return nil
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function encode_text(text)
    if not string.find(text, '[%c"\\\128-\255]') and #text <= MAX_TEXT_BYTES then
        return '"' .. text .. '"'
    end
    local parts, i = {}, 1
    while i <= #text do
        local length = sequence_length(text, i)
        if i + (length or 1) - 1 > MAX_TEXT_BYTES then
            break
        end
        local piece = string.sub(text, i, i + (length or 1) - 1)
        if length == nil then
            piece = "\239\191\189" -- U+FFFD: what was there is not UTF-8
        elseif ESCAPES[piece] then
            piece = ESCAPES[piece]
        elseif length == 1 and string.find(piece, "%c") then
            piece = string.format("\\u%04x", string.byte(piece))
        end
        parts[#parts + 1] = piece
        i = i + (length or 1)
    end
    return '"' .. table.concat(parts) .. '"'
end

local function encode_number(number)
    if number ~= number or number == math.huge or number == -math.huge then
        return "null"
    elseif number == math.floor(number) and math.abs(number) < 2 ^ 53 then
        return string.format("%.0f", number)
    end
    return (string.gsub(string.format("%.17g", number), ",", ".")) -- a locale may write a comma
end

-- Returns the flat table as a JSON object, keys in order; values are strings, numbers or booleans.
function runcast.encode(record)
    local keys = {}
    for key in pairs(record) do
        keys[#keys + 1] = key
    end
    table.sort(keys)
    for place, key in ipairs(keys) do
        local value = record[key]
        local kind = type(value)
        local text = kind == "string" and encode_text(value) or kind == "number" and encode_number(value) or tostring(value)
        keys[place] = encode_text(key) .. ":" .. text
    end
    return "{" .. table.concat(keys, ",") .. "}"
end

local function refuse(what, place)
    error("answer is not JSON: " .. what .. " at byte " .. place, 0)
end

local function skip_space(text, i)
    return select(2, string.find(text, "^[ \t\r\n]*", i)) + 1
end

local function utf8_of(code)
    if code < 0x80 then
        return string.char(code)
    elseif code < 0x800 then
        return string.char(0xC0 + math.floor(code / 64), 0x80 + code % 64)
    elseif code < 0x10000 then
        return string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
    end
    return string.char(
        0xF0 + math.floor(code / 262144),
        0x80 + math.floor(code / 4096) % 64,
        0x80 + math.floor(code / 64) % 64,
        0x80 + code % 64
    )
end

local UNESCAPES = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function decode_escape(text, i)
    local plain = UNESCAPES[string.sub(text, i + 1, i + 1)]
    if plain then
        return plain, i + 2
    end
    local hex = string.match(text, "^\\u(%x%x%x%x)", i)
    if not hex then
        refuse("unknown escape", i)
    end
    local code, after = tonumber(hex, 16), i + 6
    if code >= 0xD800 and code <= 0xDBFF then
        local low = string.match(text, "^\\u([dD][c-fC-F]%x%x)", after)
        if not low then
            refuse("half a surrogate pair", i)
        end
        code, after = 0x10000 + (code - 0xD800) * 1024 + (tonumber(low, 16) - 0xDC00), after + 6
    elseif code >= 0xDC00 and code <= 0xDFFF then
        refuse("half a surrogate pair", i)
    end
    return utf8_of(code), after
end

local function decode_text(text, i)
    local parts = {}
    i = i + 1
    while true do
        local first, last = string.find(text, '^[^"\\%c]+', i)
        if first then
            parts[#parts + 1] = string.sub(text, first, last)
            i = last + 1
        end
        local next = string.sub(text, i, i)
        if next == '"' then
            return table.concat(parts), i + 1
        elseif next == "\\" then
            parts[#parts + 1], i = decode_escape(text, i)
        elseif next == "\127" then -- %c counts DEL, JSON allows it
            parts[#parts + 1], i = next, i + 1
        else
            refuse(next == "" and "unfinished string" or "control character in a string", i)
        end
    end
end

local function decode_number(text, i)
    local whole = string.match(text, "^-?%d+", i)
    if not whole or string.find(whole, "^-?0%d") then
        refuse("unexpected character", i)
    end
    local after = i + #whole
    local fraction = string.match(text, "^%.%d+", after) or ""
    local exponent = string.match(text, "^[eE][+-]?%d+", after + #fraction) or ""
    local number = tonumber(whole .. fraction .. exponent)
    if number == nil or number == math.huge or number == -math.huge then
        refuse("number out of range", i)
    end
    return number, after + #fraction + #exponent
end

local decode_value

local function decode_members(text, i, depth, closing, one)
    if depth > MAX_DEPTH then
        refuse("nested too deep", i)
    end
    i = skip_space(text, i + 1)
    if string.sub(text, i, i) == closing then
        return i + 1
    end
    while true do
        i = skip_space(text, one(i))
        local next = string.sub(text, i, i)
        if next == closing then
            return i + 1
        elseif next ~= "," then
            refuse("expected , or " .. closing, i)
        end
        i = skip_space(text, i + 1)
    end
end

local function decode_object(text, i, depth)
    local object = {}
    local after = decode_members(text, i, depth, "}", function(at)
        if string.sub(text, at, at) ~= '"' then
            refuse("expected a key", at)
        end
        local key, value
        key, at = decode_text(text, at)
        at = skip_space(text, at)
        if string.sub(text, at, at) ~= ":" then
            refuse("expected :", at)
        end
        value, at = decode_value(text, skip_space(text, at + 1), depth + 1)
        object[key] = value
        return at
    end)
    return object, after
end

local function decode_array(text, i, depth)
    local array, count = {}, 0
    local after = decode_members(text, i, depth, "]", function(at)
        count = count + 1
        array[count], at = decode_value(text, at, depth + 1)
        return at
    end)
    return array, after
end

local WORDS = { { "true", true }, { "false", false }, { "null", nil } }

function decode_value(text, i, depth)
    local first = string.sub(text, i, i)
    if first == "{" then
        return decode_object(text, i, depth)
    elseif first == "[" then
        return decode_array(text, i, depth)
    elseif first == '"' then
        return decode_text(text, i)
    end
    for _, word in ipairs(WORDS) do
        if string.sub(text, i, i + #word[1] - 1) == word[1] then
            return word[2], i + #word[1]
        end
    end
    return decode_number(text, i)
end

-- Returns the value of a JSON text; null becomes nil. Raises a string that names the byte where the text is not strict JSON.
function runcast.decode(text)
    if #text > MAX_ANSWER_BYTES then
        refuse("more than " .. MAX_ANSWER_BYTES .. " bytes", MAX_ANSWER_BYTES)
    end
    local value, after = decode_value(text, skip_space(text, 1), 1)
    after = skip_space(text, after)
    if after <= #text then
        refuse("text after the value", after)
    end
    return value
end

-- The job, in the service's words -------------------------------------------------------------------------------------------------

-- Returns one field, or nil where this Slurm does not know it or it is empty.
local function field(record, name)
    local found, value = pcall(function()
        return record[name]
    end)
    if not found or value == "" then
        return nil
    end
    return value
end

-- Returns a count or nil; unset_at is the least value that stands for "not given" (less for fields of 16 bits).
local function count_of(record, name, unset_at)
    local number = tonumber(field(record, name))
    if number == nil or number < 0 or number >= (unset_at or UNSET_FROM) then
        return nil
    end
    return number
end

-- Returns the GPUs in a TRES text such as "gres:gpu:a100:2,gres:nvme:1" and their model (nil where none is named, "mixed" for
-- several), or nil where no GPU stands in it. A GPU without a number is one GPU.
function runcast.gpus_in(tres)
    local total, model = nil, nil
    for item in string.gmatch(tres or "", "[^,]+") do
        item = string.gsub(string.gsub(item, "%s", ""), "%(.*%)$", "")
        item = string.gsub(item, "^gres[:/]", "")
        local rest = string.match(item, "^gpu$") and "" or string.match(item, "^gpu[:=](.+)$")
        if rest then
            local named, number = string.match(rest, "^([^:=]+)[:=](%d+)$")
            if not named then
                number = string.match(rest, "^%d+$")
                named = not number and rest ~= "" and rest or nil
            end
            total = (total or 0) + (tonumber(number) or 1)
            if named then
                model = (model == nil or model == named) and named or "mixed"
            end
        end
    end
    return total, model
end

-- Returns the partition the job will be held against, by name and record: the first it names, else the default one.
local function partition_of(job_desc, part_list)
    local named = string.match(field(job_desc, "partition") or "", "^[^,]+")
    for name, partition in pairs(part_list or {}) do
        if name == named or (named == nil and tonumber(field(partition, "flag_default")) == 1) then
            return name, partition
        end
    end
    return named, {}
end

local function gpus_of(job_desc, node_count, task_count)
    local total, model = runcast.gpus_in(field(job_desc, "tres_per_job"))
    if total then
        return total, model
    end
    total, model = runcast.gpus_in(field(job_desc, "tres_per_node") or field(job_desc, "gres"))
    if total then
        return total * node_count, model
    end
    total, model = runcast.gpus_in(field(job_desc, "tres_per_task"))
    if total then
        return total * task_count, model
    end
    if runcast.gpus_in(field(job_desc, "tres_per_socket")) then
        return nil, nil, true -- a number per socket of nodes not yet chosen
    end
    return nil, nil
end

-- Returns the time limit in seconds, and "unlimited" where there is none: the job's own, else the partition's default, else its
-- maximum. What a limit means on this cluster (hard or not) is for the service to know.
local function limit_of(job_desc, partition)
    local minutes = tonumber(field(job_desc, "time_limit"))
    if minutes == nil or (minutes >= UNSET_FROM and minutes ~= INFINITE) then
        minutes = tonumber(field(partition, "default_time"))
    end
    if minutes == nil or (minutes >= UNSET_FROM and minutes ~= INFINITE) then
        minutes = tonumber(field(partition, "max_time"))
    end
    if minutes == nil or minutes <= 0 or (minutes >= UNSET_FROM and minutes ~= INFINITE) then
        return nil, nil
    elseif minutes == INFINITE then
        return nil, "unlimited"
    end
    return minutes * 60, nil
end

-- Returns MiB of the whole job, or nil. A job that asks for none gets its partition's or the settings' default. --mem=0 asks
-- for all there is, a number nobody knows yet.
local function memory_of(job_desc, partition, settings, nodes, cpus)
    local asked = { job_desc, partition, settings }
    local names = { "min_mem_per_", "def_mem_per_", "default_mem_mib_per_" }
    for place, record in ipairs(asked) do
        local per_node, per_cpu = count_of(record, names[place] .. "node"), count_of(record, names[place] .. "cpu")
        if place == 1 and per_node == 0 then
            return nil
        elseif per_cpu and per_cpu > 0 then
            return per_cpu * cpus
        elseif per_node and per_node > 0 then
            return per_node * nodes
        end
    end
    return nil
end

-- Returns the job as the service takes it; what is not known is left out, never guessed.
function runcast.job_of(job_desc, part_list, settings, group_names, now_s)
    local queue, partition = partition_of(job_desc, part_list)
    local nodes = math.max(count_of(job_desc, "min_nodes") or 1, 1)
    local tasks = count_of(job_desc, "num_tasks") or nodes * math.max(count_of(job_desc, "ntasks_per_node", 65533) or 1, 1)
    local cpus = math.max(count_of(job_desc, "min_cpus") or 1, tasks * math.max(count_of(job_desc, "cpus_per_task", 65533) or 1, 1))
    local gpus, gpu_model, gpus_unknown = gpus_of(job_desc, nodes, tasks)
    if gpus == nil and settings.gpus_tracked and not gpus_unknown then
        gpus = 0
    end
    local limit_s, limit_kind = limit_of(job_desc, partition)
    local mem_mib = memory_of(job_desc, partition, settings, nodes, cpus)
    return {
        submit_time = now_s,
        user = field(job_desc, "user_name"),
        group = group_names[count_of(job_desc, "group_id") or -1],
        account = field(job_desc, "account") or field(job_desc, "default_account"),
        queue = queue,
        qos = field(job_desc, "qos") or field(job_desc, "default_qos") or field(settings, "default_qos"),
        job_name = field(job_desc, "name"),
        work_dir = field(job_desc, "work_dir"),
        gpu_count = gpus,
        gpu_model = gpu_model,
        cpu_count = cpus,
        mem_mib = mem_mib,
        node_count = nodes,
        time_limit_s = limit_s,
        time_limit_kind = limit_kind,
    }
end

-- Asking ---------------------------------------------------------------------------------------------------------------------------

-- Returns a function that gives the seconds left of the budget; it never grows, whatever the clock does.
local function budget(seconds, clock)
    local start, left = clock(), seconds
    return function()
        left = math.min(left, seconds - (clock() - start))
        return left
    end
end

local function within(connection, left)
    local seconds = left()
    if seconds <= 0 then
        return false
    end
    connection:settimeout(seconds, "t")
    return true
end

local function receive(connection, count, left)
    if not within(connection, left) then
        return nil, "timeout"
    end
    local data, reason, part = connection:receive(count)
    return data, reason, part
end

-- Reads byte by byte (lua-socket buffers), because only so is a header without an end bounded in size.
local function receive_header(connection, left)
    local bytes = {}
    for place = 1, MAX_HEADER_BYTES do
        local byte, reason = receive(connection, 1, left)
        if not byte then
            return nil, reason
        end
        bytes[place] = byte
        if byte == "\n" and bytes[place - 2] == "\n" and bytes[place - 1] == "\r" then
            return table.concat(bytes)
        end
    end
    return nil, "rubbish"
end

local function converse(connection, path, request, left)
    connection:settimeout(math.max(left(), 0.001), "t")
    local connected, reason = connection:connect(path)
    if not connected then
        return nil, reason == "timeout" and "timeout" or "refused", reason
    end
    if not within(connection, left) then
        return nil, "timeout", "while connecting"
    end
    local sent, problem = connection:send(request)
    if not sent then
        return nil, problem == "timeout" and "timeout" or "refused", "while sending: " .. tostring(problem)
    end
    local header, fault = receive_header(connection, left)
    if not header then
        local reasons = { timeout = "timeout", rubbish = "rubbish" }
        return nil, reasons[fault] or "refused", "while waiting for the answer: " .. tostring(fault)
    end
    local status = string.match(header, "^HTTP/1%.[01] (%d%d%d)[ \r]")
    local length = tonumber(string.match(string.lower(header), "\r\ncontent%-length:[ \t]*(%d+)[ \t]*\r\n"))
    if not status or not length or length > MAX_ANSWER_BYTES then
        return nil, "rubbish", "not an HTTP answer with a length up to " .. MAX_ANSWER_BYTES
    end
    if length == 0 then
        return tonumber(status), ""
    end
    local body, stop = receive(connection, length, left)
    if not body then
        return nil, stop == "timeout" and "timeout" or "rubbish", "in the middle of the answer: " .. tostring(stop)
    end
    return tonumber(status), body
end

-- Returns status and body of POST /v1/predict, or nil, a reason (refused, timeout, rubbish) and a detail, within seconds.
function runcast.ask(unix, clock, path, body, seconds)
    local left = budget(seconds, clock)
    local connection, reason = (unix.stream or unix)()
    if not connection then
        return nil, "refused", reason
    end
    local request = "POST /v1/predict HTTP/1.1\r\nHost: runcast\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: "
        .. #body
        .. "\r\n\r\n"
        .. body
    local fine, status, answer, detail = pcall(converse, connection, path, request, left)
    pcall(connection.close, connection)
    if not fine then
        return nil, "error", status
    end
    return status, answer, detail
end

local function is_between(value, low, high)
    return type(value) == "number" and value >= low and value <= high
end

-- Returns the forecast in an answer, checked, or nil, reason and detail.
function runcast.forecast_of(status, body)
    local fine, answer = pcall(runcast.decode, body)
    if not fine or type(answer) ~= "table" then
        return nil, "rubbish", fine and "answer is not an object" or answer
    end
    if status ~= 200 then
        local text = type(answer.error) == "table" and tostring(answer.error.message) or "no text"
        return nil, string.find(text, "expired", 1, true) and "stale" or "status", status .. ": " .. text
    end
    if not is_between(answer.p50_s, 0, LONGEST_FORECAST_S) or not is_between(answer.p90_s, answer.p50_s, LONGEST_FORECAST_S) then
        return nil, "rubbish", "p50_s and p90_s are not seconds in order"
    end
    local function word(value)
        return type(value) == "string" and #value <= 64 and string.match(value, "^[%w%._:/@+-]+$") or nil
    end
    return {
        p50_s = math.max(answer.p50_s, 1),
        p90_s = math.max(answer.p90_s, 1),
        confidence = is_between(answer.confidence, 0, 1) and answer.confidence or nil,
        n_history = is_between(answer.n_history, 0, 1e9) and answer.n_history or nil,
        source = word(answer.source),
        model_version = word(answer.model_version),
    }
end

-- Using the answer -----------------------------------------------------------------------------------------------------------------

function runcast.note_of(forecast)
    local parts = { string.format("runcast p50=%.0fs p90=%.0fs", math.ceil(forecast.p50_s), math.ceil(forecast.p90_s)) }
    if forecast.confidence then
        parts[#parts + 1] = string.format("confidence=%.2f", forecast.confidence)
    end
    if forecast.n_history then
        parts[#parts + 1] = string.format("n=%.0f", forecast.n_history)
    end
    if forecast.source then
        parts[#parts + 1] = "source=" .. forecast.source
    end
    if forecast.model_version then
        parts[#parts + 1] = "model=" .. forecast.model_version
    end
    return table.concat(parts, " ")
end

-- Returns how late the job may come, in priority points from 0 to 32 x points: shortest GPU-time first, `points` per doubling.
function runcast.cost_of(forecast, gpu_count, points)
    local work = forecast.p50_s * math.max(gpu_count or 1, 1)
    return math.floor(math.min(math.log(1 + work) / math.log(2), 32) * points + 0.5)
end

local function set_note(job_desc, name, text)
    local own = field(job_desc, name)
    job_desc[name] = own and own .. "; " .. text or text
end

local ORDERS = {
    site_factor = function(job_desc, cost, settings)
        job_desc.site_factor = 32 * settings.order_points - cost
    end,
    nice = function(job_desc, cost, _, slurm)
        local offset = slurm.NICE_OFFSET or 2147483648
        local own = count_of(job_desc, "nice") or offset
        job_desc.nice = math.min(own + cost, offset + 2147483645)
    end,
    priority = function(job_desc, cost, settings)
        local own = tonumber(field(job_desc, "priority"))
        if own == nil or own >= UNSET_FROM then -- 0 is a hold, another number is somebody's decision
            job_desc.priority = settings.priority_top - cost
        end
    end,
}

-- Plans on p90 and leaves the kill limit alone; whole minutes, at least one, and only below the job's own limit.
local function set_plan(job_desc, forecast)
    local limit = count_of(job_desc, "time_limit")
    local own = count_of(job_desc, "time_min")
    local minutes = math.max(math.ceil(forecast.p90_s / 60), 1)
    if limit and minutes < limit and (own == nil or own == 0) then
        job_desc.time_min = minutes
    end
end

-- Returns nil where a time_min is safe, else the reason why it is not: without time_min_as_soft_limit, which came with
-- Slurm 23.11, backfill makes the time_min the kill limit of a job it starts early.
function runcast.plan_refused(slurm_version, slurm_conf_text)
    local year, month = string.match(slurm_version or "", "^(%d+)%.(%d+)")
    if not year then
        return "settings.slurm_version is not set (scontrol --version prints it)"
    elseif tonumber(year) * 100 + tonumber(month) < 2311 then
        return "Slurm " .. slurm_version .. " would make a time_min the kill limit; it takes 23.11 or newer"
    end
    for line in string.gmatch((slurm_conf_text or "") .. "\n", "([^\n]*)\n") do
        local value = string.match(string.lower(string.gsub(line, "#.*", "")), "^%s*schedulerparameters%s*=%s*(.*)")
        if value and string.find("," .. string.gsub(value, "%s", "") .. ",", ",time_min_as_soft_limit,", 1, true) then
            return nil
        end
    end
    return "SchedulerParameters in settings.slurm_conf does not hold time_min_as_soft_limit"
end

-- Returns why an order by this field does nothing good under the PriorityType of a slurm.conf; nil where it works or the file does
-- not say. Tried on 22.05: priority/basic takes no notice of a site factor, and counts each new job down from the last one's nice.
function runcast.order_refused(order, slurm_conf_text)
    if order ~= "site_factor" and order ~= "nice" then
        return nil
    end
    for line in string.gmatch((slurm_conf_text or "") .. "\n", "([^\n]*)\n") do
        local value = string.match(string.lower(string.gsub(line, "#.*", "")), "^%s*prioritytype%s*=%s*(%S+)")
        if value == "priority/basic" then
            return "PriorityType is priority/basic; order by " .. order .. " takes priority/multifactor"
        end
    end
    return nil
end

-- Settings -------------------------------------------------------------------------------------------------------------------------

local DEFAULTS = {
    socket = "/run/runcast/predict.sock",
    timeout_ms = 20,
    note = "admin_comment",
    order = false,
    order_points = 1000,
    priority_top = 100000,
    plan = false,
    slurm_version = "",
    slurm_conf = "/etc/slurm/slurm.conf",
    gpus_tracked = false,
    default_qos = "",
    default_mem_mib_per_cpu = 0,
    default_mem_mib_per_node = 0,
    groups_file = "/etc/group",
    failures_allowed = 3,
    pause_s = 10,
    longest_pause_s = 300,
    log_every_s = 10,
    report_every = 1000,
}

local CHOICES = {
    note = { admin_comment = true, comment = true, [false] = true },
    order = { site_factor = true, nice = true, priority = true, [false] = true },
}

local RANGES = {
    timeout_ms = { 1, 1000 },
    order_points = { 1, 1000000 },
    priority_top = { 1, 4294967000 },
    default_mem_mib_per_cpu = { 0, 1e9 },
    default_mem_mib_per_node = { 0, 1e9 },
    failures_allowed = { 1, 1000 },
    pause_s = { 1, 86400 },
    longest_pause_s = { 1, 86400 },
    log_every_s = { 0, 86400 },
    report_every = { 0, 100000 },
}

-- Returns the settings with defaults filled in. Raises a string that names the setting that cannot be used.
function runcast.settings_of(given)
    local settings = {}
    for name, value in pairs(DEFAULTS) do
        settings[name] = value
    end
    for name, value in pairs(given or {}) do
        if DEFAULTS[name] == nil then
            error("unknown setting " .. tostring(name), 0)
        end
        local range, choice = RANGES[name], CHOICES[name]
        if choice and not choice[value] or not choice and type(value) ~= type(DEFAULTS[name]) then
            error("setting " .. name .. " cannot be " .. tostring(value), 0)
        elseif range and not is_between(value, range[1], range[2]) then
            error("setting " .. name .. " must lie from " .. range[1] .. " to " .. range[2] .. ", not " .. value, 0)
        end
        settings[name] = value
    end
    if settings.order_points * 32 >= settings.priority_top and settings.order == "priority" then
        error("priority_top must exceed 32 x order_points, or jobs would reach priority 0 and be held", 0)
    end
    return settings
end

local function read_file(path)
    local file = io.open(path, "rb")
    if not file then
        return nil
    end
    local text = file:read(4 * 1024 * 1024)
    file:close()
    return text
end

-- Returns group names by number from the text of an /etc/group.
function runcast.groups_in(text)
    local names = {}
    for name, number in string.gmatch("\n" .. (text or ""), "\n([^:\n]+):[^:\n]*:(%d+):") do
        names[tonumber(number)] = names[tonumber(number)] or name
    end
    return names
end

-- The hook -------------------------------------------------------------------------------------------------------------------------

local function clean(text)
    return string.sub(string.gsub(tostring(text), "[%c\128-\255]", "?"), 1, 200)
end

-- Returns a function that logs a line, at most once in log_every_s for each reason, with the number left out.
local function throttled(slurm, every_s, clock)
    local last_s, left_out = {}, {}
    return function(reason, text)
        local now = clock()
        if last_s[reason] and now >= last_s[reason] and now - last_s[reason] < every_s then
            left_out[reason] = (left_out[reason] or 0) + 1
            return
        end
        local more = left_out[reason] and " (" .. left_out[reason] .. " more since the last line)" or ""
        last_s[reason], left_out[reason] = now, nil
        slurm.log_info("%s", "runcast: " .. text .. more)
    end
end

-- Returns a breaker: open() says whether to skip; failed() and answered() tell it what came of a try, and answered() returns how
-- many had failed in a row before. After failures_allowed
-- failures in a row it skips for pause_s, then lets one job try; each further failure doubles the pause up to longest_pause_s.
function runcast.breaker(settings, clock)
    local failures, until_s, pause_s = 0, nil, settings.pause_s
    return {
        open = function()
            local now = clock()
            -- A clock set back must not leave the breaker open for longer than the longest pause.
            return until_s ~= nil and now < until_s and until_s - now <= settings.longest_pause_s
        end,
        failed = function()
            failures = failures + 1
            if failures < settings.failures_allowed then
                return nil
            end
            local pause = pause_s
            until_s, pause_s = clock() + pause, math.min(pause_s * 2, settings.longest_pause_s)
            return pause
        end,
        answered = function()
            local before = failures
            failures, until_s, pause_s = 0, nil, settings.pause_s
            return before
        end,
    }
end

-- Returns a function that is told how long each asking took and returns a line about the last `every` of them when it is due.
function runcast.meter(every)
    local times_ms, without = {}, 0
    return function(time_ms, has_forecast)
        if every == 0 then
            return nil
        end
        times_ms[#times_ms + 1] = time_ms
        without = without + (has_forecast and 0 or 1)
        if #times_ms < every then
            return nil
        end
        table.sort(times_ms)
        local line = string.format(
            "runcast: asked %d times, %d without a forecast; p50 %.1f ms, p99 %.1f ms, max %.1f ms",
            every,
            without,
            times_ms[math.ceil(every * 0.5)],
            times_ms[math.ceil(every * 0.99)],
            times_ms[every]
        )
        times_ms, without = {}, 0
        return line
    end
end

-- Returns the hook of these settings: submit(job_desc, part_list) changes the request where a forecast came in time and returns
-- slurm.SUCCESS always. Raises a string where the settings or lua-socket cannot be used.
function runcast.new(given, slurm)
    local settings = runcast.settings_of(given)
    local unix, clock = require("socket.unix"), require("socket.core").gettime
    local say = throttled(slurm, settings.log_every_s, clock)
    local function complain(reason, detail)
        say(reason, "no forecast: " .. reason .. ": " .. detail)
    end
    local breaker = runcast.breaker(settings, clock)
    local measured = runcast.meter(settings.report_every)
    local group_names = runcast.groups_in(read_file(settings.groups_file))
    local slurm_conf = (settings.plan or settings.order) and read_file(settings.slurm_conf)
    local no_plan = settings.plan and runcast.plan_refused(settings.slurm_version, slurm_conf)
    if no_plan then
        slurm.log_error("%s", "runcast: plan is off, no time_min will be set: " .. clean(no_plan))
    end
    local no_order = settings.order and runcast.order_refused(settings.order, slurm_conf)
    if no_order then
        slurm.log_error("%s", "runcast: order is off: " .. clean(no_order))
    end
    local uses = {
        "note " .. (settings.note or "off"),
        "order " .. (not no_order and settings.order or "off"),
        "plan " .. (settings.plan and not no_plan and "on" or "off"),
    }
    slurm.log_info("%s", "runcast: loaded, asks " .. clean(settings.socket) .. "; " .. table.concat(uses, ", "))

    local function use(job_desc, forecast, gpu_count)
        if settings.note then
            set_note(job_desc, settings.note, runcast.note_of(forecast))
        end
        if settings.order and not no_order then
            ORDERS[settings.order](job_desc, runcast.cost_of(forecast, gpu_count, settings.order_points), settings, slurm)
        end
        if settings.plan and not no_plan then
            set_plan(job_desc, forecast)
        end
    end

    local function try(job_desc, part_list)
        if breaker.open() then
            return
        end
        local start = clock()
        local job = runcast.job_of(job_desc, part_list, settings, group_names, os.time())
        local status, body, detail = runcast.ask(unix, clock, settings.socket, runcast.encode(job), settings.timeout_ms / 1000)
        local forecast, reason = nil, body
        if status then
            forecast, reason, detail = runcast.forecast_of(status, body)
        end
        local time_ms = (clock() - start) * 1000
        local line = measured(time_ms, forecast ~= nil)
        if line then
            slurm.log_info("%s", line)
        end
        if not forecast then
            complain(reason, string.format("%s (after %.1f ms)", clean(detail), time_ms))
            local pause_s = breaker.failed()
            if pause_s then
                complain("pause", "not asked again for " .. pause_s .. " s")
            end
            return
        end
        local failures = breaker.answered()
        if failures > 0 then
            say("again", "the service answers again, after " .. failures .. " failures in a row")
        end
        use(job_desc, forecast, job.gpu_count)
    end

    return {
        submit = function(job_desc, part_list)
            local fine, problem = pcall(try, job_desc, part_list)
            if not fine then
                pcall(complain, "error", clean(problem))
            end
            return slurm.SUCCESS
        end,
    }
end

return runcast
