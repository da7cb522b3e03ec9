"""runcast.lua in the Lua interpreters that Slurm links, without Slurm: JSON, TRES texts, the ask and the breaker."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from answering import RUBBISH, answering, nobody_accepts

FOLDER = Path(__file__).parents[3] / "scheduler" / "slurm"
CODE = FOLDER / "runcast.lua"
PAGE = Path(__file__).parents[3] / "docs" / "slurm.md"
INTERPRETERS = ["lua5.1", "lua5.3", "lua5.4", "luajit"]


@pytest.fixture(params=INTERPRETERS)
def lua(request: pytest.FixtureRequest) -> "Lua":
    path = shutil.which(request.param)
    if path is None:
        pytest.skip(f"{request.param} is not installed (Debian: apt-get install lua5.1 lua5.4 lua-socket)")
    return Lua(path)


class Lua:
    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, script: str, *arguments: str) -> str:
        """Run `script` with the module as `runcast` and the arguments in `arg`; return what it wrote."""
        text = f"local runcast = dofile({json.dumps(str(CODE))})\n{script}"
        done = subprocess.run([self.path, "-", *arguments], input=text.encode(), capture_output=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8")

    def has_sockets(self) -> bool:
        return subprocess.run([self.path, "-e", 'require "socket.unix"'], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        pytest.param('{job_name="train"}', {"job_name": "train"}, id="text"),
        pytest.param("{a=1, b=2.5, c=1796008590, d=true}", {"a": 1, "b": 2.5, "c": 1796008590, "d": True}, id="numbers"),
        pytest.param("{a=1/0, b=0/0}", {"a": None, "b": None}, id="no_infinity_or_nan"),
        pytest.param(r'{a="q\"b\\s/\n\r\t\1\127"}', {"a": 'q"b\\s/\n\r\t\x01\x7f'}, id="escapes"),
        pytest.param(r'{a="\195\169\226\130\172\240\159\152\128"}', {"a": "é€😀"}, id="utf8"),
        pytest.param(r'{a="\255x\195"}', {"a": "�x�"}, id="not_utf8"),
        pytest.param(r'{a="\237\160\128\192\175"}', {"a": "�����"}, id="surrogates_and_overlong_are_not_utf8"),
        pytest.param('{a=string.rep("n", 5000)}', {"a": "n" * 1024}, id="long_text_is_cut"),
        pytest.param(r'{a=string.rep("\195\169", 600)}', {"a": "é" * 512}, id="cut_between_characters"),
    ],
)
def test_a_job_is_written_as_json(lua: Lua, literal: str, expected: object) -> None:
    assert json.loads(lua(f"io.write(runcast.encode({literal}))")) == expected


READ = """
local function show(value)
    if type(value) == "string" then return '"' .. value .. '"' end
    if type(value) ~= "table" then return tostring(value) end
    local keys, parts = {}, {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, key in ipairs(keys) do parts[#parts + 1] = tostring(key) .. "=" .. show(value[key]) end
    return "{" .. table.concat(parts, " ") .. "}"
end
local fine, value = pcall(runcast.decode, arg[1])
io.write(fine and show(value) or "REFUSED " .. value)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "x", "b": [1, {"c": null}], "d": true}', '{a="x" b={1=1 2={}} d=true}'),
        (" { } ", "{}"),
        ('{"a":-0.5e2}', "{a=-50"),
        (r'"\u00e9\ud83d\ude00\/"', '"é😀/"'),
        ('"\x7f"', '"\x7f"'),
    ],
)
def test_strict_json_is_read(lua: Lua, text: str, expected: str) -> None:
    assert lua(READ, text).startswith(expected)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param('{"a":1', id="unfinished"),
        pytest.param('{"a":1,}', id="comma_before_the_end"),
        pytest.param("[1 2]", id="no_comma"),
        pytest.param('{"a":1} x', id="more_after_it"),
        pytest.param("{a:1}", id="bare_key"),
        pytest.param("01", id="leading_zero"),
        pytest.param("+1", id="plus"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("NaN", id="nan"),
        pytest.param("1e999", id="infinite"),
        pytest.param('"\t"', id="control_character"),
        pytest.param(r'"\x41"', id="unknown_escape"),
        pytest.param(r'"\ud800x"', id="half_a_pair"),
        pytest.param("[" * 6 + "]" * 6, id="too_deep"),
        pytest.param('"' + "a" * 20000 + '"', id="too_long"),
    ],
)
def test_anything_else_is_refused_with_the_place(lua: Lua, text: str) -> None:
    assert lua(READ, text).startswith("REFUSED answer is not JSON: ")


@pytest.mark.parametrize(
    ("tres", "expected"),
    [
        ("gres:gpu:2", "2 nil"),
        ("gres/gpu:2", "2 nil"),
        ("gpu", "1 nil"),
        ("gres:gpu:a100", "1 a100"),
        ("gres:gpu:a100:4", "4 a100"),
        ("gres/gpu:a100=4", "4 a100"),
        ("gres/gpu=4", "4 nil"),
        ("gpu:8(S:0-3)", "8 nil"),
        ("gres:gpu:a100:2,gres:gpu:v100:1", "3 mixed"),
        ("gres:nvme:1,gres:gpu:3", "3 nil"),
        ("gres:gpumem:3", "nil nil"),
        ("cpu=8", "nil nil"),
        ("", "nil nil"),
    ],
)
def test_gpus_are_counted_in_what_the_job_asks_for(lua: Lua, tres: str, expected: str) -> None:
    assert lua("local n, m = runcast.gpus_in(arg[1]); io.write(tostring(n), ' ', tostring(m))", tres) == expected


JOB = """
local partitions = {
    gpu = {flag_default = 1, max_time = 10080, default_time = 4294967294},
    short = {flag_default = 0, max_time = 60},
    fat = {flag_default = 0, def_mem_per_cpu = 8000, def_mem_per_node = 8000},
}
io.write(runcast.encode(runcast.job_of(%s, partitions, {gpus_tracked = %s}, {[60] = "games"}, 1796008590)))
"""


@pytest.mark.parametrize(
    ("job_desc", "tracked", "expected"),
    [
        pytest.param(
            "{}",
            "true",
            {"queue": "gpu", "cpu_count": 1, "node_count": 1, "gpu_count": 0, "time_limit_s": 604800, "time_limit_kind": None},
            id="every_field_nil",
        ),
        pytest.param("{}", "false", {"gpu_count": None}, id="gpus_untracked_are_unknown_not_none"),
        pytest.param(
            '{user_name="ada", group_id=60, default_account="physics", default_qos="normal", name="x", work_dir="/w"}',
            "true",
            {"user": "ada", "group": "games", "account": "physics", "qos": "normal", "job_name": "x", "work_dir": "/w"},
            id="who_and_what",
        ),
        pytest.param(
            '{account="own", default_account="physics", partition="short,gpu", name=""}',
            "true",
            {"account": "own", "queue": "short", "time_limit_s": 3600, "job_name": None},
            id="named_beats_default_first_partition_counts",
        ),
        pytest.param(
            '{min_nodes=3, tres_per_node="gres:gpu:2", num_tasks=6, cpus_per_task=4, time_limit=90, min_mem_per_cpu=512}',
            "true",
            {"gpu_count": 6, "node_count": 3, "cpu_count": 24, "mem_mib": 12288, "time_limit_s": 5400},
            id="per_node_and_per_cpu",
        ),
        pytest.param(
            '{num_tasks=4, tres_per_task="gres:gpu:1", cpus_per_task=65534, min_nodes=4294967294}',
            "true",
            {"gpu_count": 4, "cpu_count": 4, "node_count": 1},
            id="per_task_and_unset_marks",
        ),
        pytest.param('{tres_per_socket="gres:gpu:1"}', "true", {"gpu_count": None}, id="per_socket_is_not_known_yet"),
        pytest.param(
            '{tres_per_job="gres:gpu:8", tres_per_node="gres:gpu:4", min_nodes=2}', "true", {"gpu_count": 8}, id="total_wins"
        ),
        pytest.param("{time_limit=4294967295}", "true", {"time_limit_s": None, "time_limit_kind": "unlimited"}, id="unlimited"),
        pytest.param("{min_mem_per_node=0}", "true, default_mem_mib_per_node=9", {"mem_mib": None}, id="all_memory_is_no_number"),
        pytest.param("{min_nodes=2}", "true, default_mem_mib_per_node=4000", {"mem_mib": 8000}, id="default_memory_per_node"),
        pytest.param("{min_cpus=4}", "true, default_mem_mib_per_cpu=500", {"mem_mib": 2000}, id="default_memory_per_cpu"),
        pytest.param(
            '{partition="fat", min_cpus=2}', "true, default_mem_mib_per_cpu=500", {"mem_mib": 16000}, id="of_the_partition"
        ),
        pytest.param("{}", 'true, default_qos="normal"', {"qos": "normal"}, id="default_qos"),
    ],
)
def test_the_request_becomes_a_job(lua: Lua, job_desc: str, tracked: str, expected: dict[str, object]) -> None:
    job = json.loads(lua(JOB % (job_desc, tracked)))
    assert {name: job.get(name) for name in expected} == expected
    assert job["submit_time"] == 1796008590


ASK = """
local unix, clock = require("socket.unix"), require("socket.core").gettime
local start = clock()
local status, body, detail = runcast.ask(unix, clock, arg[1], '{"submit_time":1}', 0.02)
local took = clock() - start
local forecast, reason = nil, body
if status then forecast, reason, detail = runcast.forecast_of(status, body) end
io.write(forecast and runcast.note_of(forecast) or reason, "\\n", tostring(detail), "\\n", took)
"""
NOTE = "runcast p50=90s p90=401s confidence=0.75 n=12 source=nearest_median model=demo/7"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("good", NOTE),
        ("hang", "timeout"),
        ("trickle", "timeout"),
        ("close", "refused"),
        ("stale", "stale"),
        ("refused_field", "status"),
        *((mode, "rubbish") for mode in RUBBISH),
    ],
)
def test_each_fault_of_the_service_has_its_reason_and_costs_no_more_than_the_bound(
    lua: Lua, tmp_path: Path, mode: str, expected: str
) -> None:
    if not lua.has_sockets():
        pytest.skip("lua-socket is not installed for it")
    socket = tmp_path / "s"
    with answering(socket) as service:
        service.mode, service.forget_s = mode, 0.2
        for _ in range(5):  # a busy machine may be late once
            got, _, took_s = lua(ASK, str(socket)).split("\n")
            if float(took_s) < 0.03 and got == expected:
                break
    assert got == expected
    assert float(took_s) < 0.03


def test_no_service_and_a_full_queue_are_refused_at_once(lua: Lua, tmp_path: Path) -> None:
    if not lua.has_sockets():
        pytest.skip("lua-socket is not installed for it")
    reason, detail, _ = lua(ASK, str(tmp_path / "none")).split("\n")
    assert (reason, detail) == ("refused", "No such file or directory")
    with nobody_accepts(tmp_path / "s"):
        reason, _, took_s = lua(ASK, str(tmp_path / "s")).split("\n")
    assert reason in ("refused", "timeout")
    assert float(took_s) < 0.03


BREAKER = """
local now = 0
local breaker = runcast.breaker({failures_allowed = 2, pause_s = 10, longest_pause_s = 30}, function() return now end)
local steps = {}
local function note(...) steps[#steps + 1] = table.concat({...}, " ") end
local function failed() note(now, "failed", tostring(breaker.failed())) end
local function open() note(now, "open", tostring(breaker.open())) end
failed() open() failed() open() now = 9 open() now = 10 open() failed() now = 29 open() now = 30 open() failed() now = 60 open()
failed() now = 0 open() now = 90 open() note(now, "answered", tostring(breaker.answered())) open() failed() open()
io.write(table.concat(steps, "; "))
"""


def test_repeated_failures_open_the_breaker_and_one_answer_closes_it(lua: Lua) -> None:
    assert lua(BREAKER) == (
        "0 failed nil; 0 open false; 0 failed 10; 0 open true; 9 open true; 10 open false; 10 failed 20; 29 open true; "
        "30 open false; 30 failed 30; 60 open false; 60 failed 30; 0 open false; 90 open false; 90 answered 5; 90 open false; "
        "90 failed nil; 90 open false"
    )


def test_how_long_the_askings_took_is_said_when_it_is_due(lua: Lua) -> None:
    lines = lua("""
        local measured = runcast.meter(100)
        for i = 1, 250 do local line = measured(101 - (i - 1) % 100, i % 50 ~= 0) if line then io.write(line, "\\n") end end
        io.write(tostring(runcast.meter(0)(1, true)))
    """)
    line = "runcast: asked 100 times, 2 without a forecast; p50 51.0 ms, p99 100.0 ms, max 101.0 ms"
    assert lines.split("\n") == [line, line, "nil"]


@pytest.mark.parametrize(
    ("p50_s", "gpus", "expected"),
    [(1, "nil", 1000), (3, "nil", 2000), (3, "0", 2000), (1, "3", 2000), (2.0**40, "1", 32000)],
)
def test_the_order_is_by_gpu_time_with_points_for_each_doubling(lua: Lua, p50_s: float, gpus: str, expected: int) -> None:
    assert int(float(lua(f"io.write(runcast.cost_of({{p50_s = {p50_s}}}, {gpus}, 1000))"))) == expected


@pytest.mark.parametrize(
    ("version", "conf", "expected"),
    [
        ("", "", "settings.slurm_version is not set"),
        ("22.05.8", "SchedulerParameters=time_min_as_soft_limit", "Slurm 22.05.8 would make a time_min the kill limit"),
        ("23.02.7", "SchedulerParameters=time_min_as_soft_limit", "Slurm 23.02.7 would make a time_min the kill limit"),
        ("23.11.0", "", "does not hold time_min_as_soft_limit"),
        ("24.05.1", "#SchedulerParameters=time_min_as_soft_limit", "does not hold time_min_as_soft_limit"),
        ("24.05.1", "SchedulerParameters=bf_window=9,time_min_as_soft_limit_not", "does not hold time_min_as_soft_limit"),
        ("24.05.1", "ClusterName=c\nschedulerparameters = bf_window=9, time_min_as_soft_limit # plan", "nil"),
    ],
)
def test_a_time_min_is_refused_where_it_could_become_the_kill_limit(lua: Lua, version: str, conf: str, expected: str) -> None:
    assert expected in lua("io.write(tostring(runcast.plan_refused(arg[1], arg[2])))", version, conf)


@pytest.mark.parametrize(
    ("order", "conf", "expected"),
    [
        ("'site_factor'", "ClusterName=c\nprioritytype = Priority/Basic # ours", "PriorityType is priority/basic"),
        ("'nice'", "PriorityType=priority/basic", "order by nice takes priority/multifactor"),
        ("'nice'", "PriorityType=priority/multifactor", "nil"),
        ("'nice'", "#PriorityType=priority/basic", "nil"),
        ("'site_factor'", "", "nil"),
        ("'priority'", "PriorityType=priority/basic", "nil"),
        ("false", "PriorityType=priority/basic", "nil"),
    ],
)
def test_an_order_that_moves_nothing_is_refused(lua: Lua, order: str, conf: str, expected: str) -> None:
    assert expected in lua(f"io.write(tostring(runcast.order_refused({order}, arg[1])))", conf)


HOOK = """
local lines = {}
local slurm = {SUCCESS = 0, NICE_OFFSET = 2147483648,
    log_info = function(format, ...) lines[#lines + 1] = string.format(format, ...) end}
slurm.log_error = slurm.log_info
local job = %s
local fine, hook = pcall(runcast.new, %s, slurm)
if not fine then io.write("not loaded: ", hook) return end
for _ = 1, %d do assert(hook.submit(job, {}) == 0) end
job.submit_time = nil
io.write(runcast.encode(job), "\\n", table.concat(lines, "\\n"))
"""


def hook(lua: Lua, settings: str, job: str = "{time_limit=60}", times: int = 1) -> tuple[dict[str, object], str]:
    job_after, _, log = lua(HOOK % (job, settings, times)).partition("\n")
    return json.loads(job_after), log


@pytest.mark.parametrize(
    ("settings", "job", "changed"),
    [
        pytest.param("note='comment'", "{comment='mine'}", {"comment": f"mine; {NOTE}"}, id="own_comment_stays"),
        pytest.param("note='admin_comment'", "{}", {"admin_comment": NOTE}, id="admin_comment"),
        pytest.param("note=false", "{}", {}, id="nothing_chosen_nothing_changed"),
        pytest.param("note=false, order='nice'", "{nice=4294967294}", {"nice": 2147483648 + 6508}, id="nice"),
        pytest.param(
            "note=false, order='nice'", "{nice=2147483748}", {"nice": 2147483748 + 6508}, id="nice_is_added_to_own_nice"
        ),
        pytest.param("note=false, order='site_factor'", "{}", {"site_factor": 32000 - 6508}, id="site_factor"),
        pytest.param("note=false, order='priority'", "{priority=4294967294}", {"priority": 100000 - 6508}, id="priority"),
        pytest.param("note=false, order='priority'", "{priority=0}", {}, id="a_held_job_stays_held"),
        pytest.param(
            "note=false, order='site_factor'", "{tres_per_job='gres:gpu:8'}", {"site_factor": 32000 - 9494}, id="times_gpus"
        ),
        pytest.param("note=false, plan=true, slurm_version='22.05.8'", "{time_limit=60}", {}, id="no_time_min_on_old_slurm"),
        pytest.param(
            "note=false, plan=true, slurm_version='23.11.1', slurm_conf=CONF", "{time_limit=60}", {"time_min": 7}, id="plan"
        ),
        pytest.param(
            "note=false, plan=true, slurm_version='23.11.1', slurm_conf=CONF", "{time_limit=7}", {}, id="p90_over_limit"
        ),
        pytest.param(
            "note=false, plan=true, slurm_version='23.11.1', slurm_conf=CONF",
            "{time_limit=60, time_min=20}",
            {},
            id="own_time_min_stays",
        ),
        pytest.param("note=false, plan=true, slurm_version='23.11.1', slurm_conf=CONF", "{}", {}, id="no_limit_no_time_min"),
    ],
)
def test_each_use_changes_its_own_field_and_never_the_time_limit(
    lua: Lua, tmp_path: Path, settings: str, job: str, changed: dict[str, object]
) -> None:
    if not lua.has_sockets():
        pytest.skip("lua-socket is not installed for it")
    conf = tmp_path / "slurm.conf"
    conf.write_text("SchedulerParameters=time_min_as_soft_limit\n")
    socket = tmp_path / "s"
    with answering(socket):
        settings = settings.replace("CONF", f"'{conf}'")
        after, log = hook(lua, f"{{socket='{socket}', timeout_ms=1000, {settings}}}", job)
    before = json.loads(lua(f"io.write(runcast.encode({job}))"))
    assert after == {**before, **changed}
    assert ("plan is off" in log) == ("22.05" in settings)


def test_failures_are_logged_once_and_then_not_asked_for_a_while(lua: Lua, tmp_path: Path) -> None:
    if not lua.has_sockets():
        pytest.skip("lua-socket is not installed for it")
    with answering(tmp_path / "s") as service:
        service.mode = "stale"
        after, log = hook(lua, f"{{socket='{tmp_path}/s', timeout_ms=1000, failures_allowed=3}}", times=20)
        assert len(service.asked) == 3
    assert after == {"time_limit": 60}
    assert re.sub(r"\d+\.\d ms", "TIME", log).split("\n")[1:] == [
        "runcast: no forecast: stale: 503: the bundle expired at 2026-01-01T00:00:00Z (after TIME)",
        "runcast: no forecast: pause: not asked again for 10 s",
    ]


@pytest.mark.parametrize(
    ("settings", "uses"),
    [
        ("", "note admin_comment, order off, plan off"),
        ("note=false, order='nice'", "note off, order nice, plan off"),
        ("note='comment', plan=true, slurm_version='23.11.1'", "note comment, order off, plan on"),
        ("plan=true, slurm_version='22.05.8'", "note admin_comment, order off, plan off"),
    ],
)
def test_the_plugin_says_what_it_does_when_it_is_loaded(lua: Lua, tmp_path: Path, settings: str, uses: str) -> None:
    if not lua.has_sockets():
        pytest.skip("lua-socket is not installed for it")
    (tmp_path / "slurm.conf").write_text("SchedulerParameters=time_min_as_soft_limit\n")
    _, log = hook(lua, f"{{socket='/run/x', slurm_conf='{tmp_path}/slurm.conf', {settings}}}", times=0)
    assert f"runcast: loaded, asks /run/x; {uses}" in log.split("\n")


def test_an_order_that_moves_nothing_is_off_and_the_log_says_so(lua: Lua, tmp_path: Path) -> None:
    if not lua.has_sockets():
        pytest.skip("lua-socket is not installed for it")
    (tmp_path / "slurm.conf").write_text("PriorityType=priority/basic\n")
    with answering(tmp_path / "s"):
        settings = f"socket='{tmp_path}/s', timeout_ms=1000, note=false, order='nice', slurm_conf='{tmp_path}/slurm.conf'"
        after, log = hook(lua, f"{{{settings}}}")
    assert after == {"time_limit": 60}
    assert log.split("\n")[0] == "runcast: order is off: PriorityType is priority/basic; order by nice takes priority/multifactor"


def test_the_plugin_says_that_the_service_answers_again_after_any_failure(lua: Lua, tmp_path: Path) -> None:
    if not lua.has_sockets():
        pytest.skip("lua-socket is not installed for it")
    with answering(tmp_path / "s") as service:
        service.modes = iter(["stale", "good", "good"])
        _, log = hook(lua, f"{{socket='{tmp_path}/s', timeout_ms=1000, failures_allowed=3}}", times=3)
    assert [line for line in log.split("\n") if "again" in line] == [
        "runcast: the service answers again, after 1 failures in a row"
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{sokcet='/run/s'}", "unknown setting sokcet"),
        ("{note='coment'}", "setting note cannot be coment"),
        ("{timeout_ms='20'}", "setting timeout_ms cannot be 20"),
        ("{timeout_ms=5000}", "setting timeout_ms must lie from 1 to 1000, not 5000"),
        ("{order='priority', priority_top=100}", "priority_top must exceed 32 x order_points"),
    ],
)
def test_settings_that_cannot_be_used_are_named(lua: Lua, settings: str, message: str) -> None:
    assert message in lua(HOOK % ("{}", settings, 1))


def test_group_names_come_from_the_group_file(lua: Lua) -> None:
    text = "root:x:0:\\n# comment\\ngames:x:60:ada,bob\\nbroken\\n"
    assert lua(f'local g = runcast.groups_in("{text}"); io.write(g[0], " ", g[60], " ", tostring(g[61]))') == "root games nil"


def test_the_operators_file_states_the_defaults_of_the_code(lua: Lua, tmp_path: Path) -> None:
    script = tmp_path / "job_submit.lua"
    script.write_text((FOLDER / "job_submit.lua").read_text().replace("/etc/slurm/runcast.lua", str(tmp_path / "seen.lua")))
    (tmp_path / "seen.lua").write_text("return {new = function(settings) seen = settings error('seen', 0) end}")
    write = "for name in pairs(seen) do seen[name] = tostring(seen[name]) end io.write(runcast.encode(seen), '\\n')"
    slurm = "slurm = {SUCCESS = 0, log_error = function() end}"
    own = json.loads(lua(f"{slurm} dofile(arg[1]) {write}", str(script)))
    defaults = json.loads(lua(f"seen = runcast.settings_of({{}}) {write}"))
    assert own == defaults
    assert [name for name in defaults if f"`{name}`" not in PAGE.read_text()] == []


@pytest.mark.parametrize(
    ("script", "code", "says"),
    [
        pytest.param("return {", 1, "INVALID: ", id="half_written"),
        pytest.param(
            "return slurm.SUCCESS", 1, "INVALID: it does not return slurm.SUCCESS or lacks a function", id="no_function"
        ),
        pytest.param("error('no')", 1, "INVALID: ", id="raises"),
        pytest.param(
            "function slurm_job_submit() return slurm.ERROR end function slurm_job_modify() end return slurm.SUCCESS",
            1,
            "FAULTY: the job would not pass",
            id="rejects",
        ),
        pytest.param(
            "function slurm_job_submit(j) j.time_limit = 1 return 0 end function slurm_job_modify() end return slurm.SUCCESS",
            1,
            "FAULTY: the time limit was touched",
            id="touches_the_limit",
        ),
        pytest.param(None, 2, "NO FORECAST: jobs pass as they are", id="no_service"),
    ],
)
def test_a_script_is_tried_before_slurmctld_gets_it(lua: Lua, tmp_path: Path, script: str | None, code: int, says: str) -> None:
    path = tmp_path / "job_submit.lua"
    path.write_text(installed(tmp_path) if script is None else script)
    done = subprocess.run(
        [lua.path, str(FOLDER / "check.lua"), str(path)], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, says in done.stdout) == (code, True), done.stdout + done.stderr


def test_the_trial_shows_what_would_be_set(lua: Lua, tmp_path: Path) -> None:
    if not lua.has_sockets():
        pytest.skip("lua-socket is not installed for it")
    path = tmp_path / "job_submit.lua"
    path.write_text(installed(tmp_path).replace("timeout_ms = 20", "timeout_ms = 1000"))
    with answering(tmp_path / "s"):
        done = subprocess.run(
            [lua.path, str(FOLDER / "check.lua"), str(path)], capture_output=True, text=True, timeout=30, check=False
        )
    assert (done.returncode, done.stdout.split("\n")) == (
        0,
        [
            f"slurmctld.log: runcast: loaded, asks {tmp_path}/s; note admin_comment, order off, plan off",
            f"would set admin_comment = {NOTE}",
            "OK: jobs pass, with a forecast",
            "",
        ],
    )


def installed(folder: Path) -> str:
    text = (FOLDER / "job_submit.lua").read_text()
    return text.replace("/etc/slurm/runcast.lua", str(CODE)).replace("/run/runcast/predict.sock", str(folder / "s"))


def test_without_lua_socket_jobs_pass_and_the_log_says_why(lua: Lua, tmp_path: Path) -> None:
    path = tmp_path / "job_submit.lua"
    path.write_text('package.cpath = "" package.preload["socket.unix"] = nil package.path = ""\n' + installed(tmp_path))
    done = subprocess.run(
        [lua.path, str(FOLDER / "check.lua"), str(path)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert "runcast: not loaded, jobs pass without a forecast: " in done.stdout
    assert "socket.unix" in done.stdout
