"""The description of the service's interface: OpenAPI 3.1 and a page for people, both made from the canonical columns."""

import html
from typing import Any

from runcast.data.columns import BY_NAME, LARGEST_NUMBER, TIME_LIMIT_KINDS
from runcast.scheduler.events import KINDS, LONGEST_STATE
from runcast.scheduler.jobs import LARGEST_WHOLE, LONGEST_TEXT, SUBMISSION_FIELDS, WHOLE_NUMBERS

ANSWER_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("p50_s", "number", "Median forecast of the runtime (s): for ordering jobs."),
    ("p90_s", "number", "Nine in ten jobs like this end within it (s): for planning and backfilling. Never a limit to kill at."),
    ("point_s", "number", "The single value with the best chance of being right within 25 % (s)."),
    ("confidence", "number", "From 0 to 1: how sure point_s is, compared with other answers of the same model."),
    ("source", "string", "What answered: the model's kind, a baseline, or training_median where nothing is known."),
    (
        "n_history",
        "integer",
        "Ended runs of the job's own behind the answer, 0 to 7: of its user's most specific key that has any; 0 where the user has "
        "none and runs of others answered. Without a user: of the job's most specific key.",
    ),
    ("model_version", "string", "Which model: kind, night and the start of its hash."),
)

TOKENS = (
    "Where the service was started with them: the ask token may ask, the report token may report events too. On a Unix socket the "
    "account that connects may report where the service names it."
)

_TIME = {
    "description": "ISO 8601 with an offset, or seconds since 1970.",
    "anyOf": [{"type": "string", "format": "date-time"}, {"type": "number", "minimum": 0, "exclusiveMaximum": 4102444800}],
}


def document(version: str) -> dict[str, Any]:
    """Return the OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Runcast", "version": version, "description": "How long jobs will run, asked at their submission."},
        "paths": {
            "/v1/predict": {
                "post": _post("Forecast one job, or a list of jobs in their order.", "Job", _one_or_many("Forecast"))
            },
            "/v1/events": {
                "post": _post("Report what happened to jobs; answered once it is kept.", "Event", _accepted(), also=("507",))
            },
            "/healthz": {"get": _get("Whether forecasts are served, and from which bundle.", "application/json", also=("503",))},
            "/metrics": {"get": _get("Counts in Prometheus' text format.", "text/plain")},
        },
        "security": [{}, {"token": []}],
        "components": {
            "schemas": {"Job": _job(), "Event": _event(), "Forecast": _forecast(), "Error": _error()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": TOKENS}},
        },
    }


def page(version: str) -> str:
    """Return the interface as one HTML page that needs nothing else."""
    fields = "".join(
        f"<tr><td><code>{f.name}</code></td><td>{'number' if f.is_number else 'time' if f.name == 'submit_time' else 'text'}</td>"
        f"<td>{html.escape(BY_NAME[f.name].unit)}</td><td>{html.escape(f.meaning)}{' <b>Required.</b>' if f.is_required else ''}</td></tr>"
        for f in SUBMISSION_FIELDS
    )
    answers = "".join(f"<tr><td><code>{n}</code></td><td>{k}</td><td>{html.escape(m)}</td></tr>" for n, k, m in ANSWER_FIELDS)
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Runcast {html.escape(version)}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}td,th{{padding:.2rem .8rem .2rem 0;
text-align:left;vertical-align:top}}pre{{background:#f4f4f4;padding:1rem;overflow:auto}}</style>
<h1>Runcast</h1><p>How long jobs will run, asked at their submission. Machines read <a href="/openapi.json">/openapi.json</a>;
<a href="/healthz">/healthz</a> says what is served, <a href="/metrics">/metrics</a> counts.</p>
<h2>POST /v1/predict</h2><p>One job or a list of jobs, as JSON:</p>
<pre>{{"submit_time": "2026-07-01T09:00:00+02:00", "user": "ada", "job_name": "train.sh", "gpu_count": 8, "time_limit_s": 86400}}</pre>
<table><tr><th>field</th><th>type</th><th>unit</th><th>meaning</th></tr>{fields}</table>
<p>The answer, for each job:</p><table><tr><th>field</th><th>type</th><th>meaning</th></tr>{answers}</table>
<h2>POST /v1/events</h2><p>One event or a list: <code>event</code> is {", ".join(KINDS)}; <code>job_id</code> and
<code>submit_time</code> say which job, <code>start_time</code>, <code>end_time</code> and
<code>state</code> what happened. Answered once kept: it outlives the service.</p>
<h2>Errors</h2><p>400 not JSON, 401 no token, 403 may not do that, 404, 405, 413 too large, 415 says it is no JSON, 422 a field is wrong and
is named, 431 too many headers, 503 no bundle that may be served, or too much at once, 507 the disk does not take events. A scheduler
treats any of them, and no answer in time, as: no forecast.</p></html>
"""


def _job() -> dict[str, Any]:
    properties = {f.name: _field(f.name, f.is_number, f.meaning) for f in SUBMISSION_FIELDS}
    properties["time_limit_kind"]["enum"] = [*TIME_LIMIT_KINDS, None]
    required = [f.name for f in SUBMISSION_FIELDS if f.is_required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _field(name: str, is_number: bool, meaning: str) -> dict[str, Any]:
    if name == "submit_time":
        return {**_TIME, "description": f"{meaning} {_TIME['description']}"}
    unit = BY_NAME[name].unit
    described = {"description": f"{meaning}{f' Unit: {unit}.' if unit else ''}"}
    if name in WHOLE_NUMBERS:
        return {"type": ["integer", "null"], "minimum": -LARGEST_WHOLE - 1, "maximum": LARGEST_WHOLE, **described}
    if is_number:
        least = {} if name == "priority" else {"minimum": 0}
        return {"type": ["number", "null"], **least, "maximum": LARGEST_NUMBER, **described}
    return {"type": ["string", "null"], "maxLength": LONGEST_TEXT, **described}


def _event() -> dict[str, Any]:
    job = _job()
    own = {
        "event": {"enum": list(KINDS)},
        "start_time": _TIME,
        "end_time": _TIME,
        "state": {"type": "string", "maxLength": LONGEST_STATE},
    }
    return {**job, "properties": {**own, **job["properties"]}, "required": ["event", "job_id", "submit_time"]}


def _forecast() -> dict[str, Any]:
    properties = {name: {"type": kind, "description": meaning} for name, kind, meaning in ANSWER_FIELDS}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _error() -> dict[str, Any]:
    error = {
        "type": "object",
        "properties": {"message": {"type": "string"}, "field": {"type": "string"}},
        "required": ["message"],
    }
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}


def _one_or_many(name: str) -> dict[str, Any]:
    one = {"$ref": f"#/components/schemas/{name}"}
    return {"oneOf": [one, {"type": "array", "items": one}]}


def _accepted() -> dict[str, Any]:
    return {"type": "object", "properties": {"accepted": {"type": "integer"}}, "required": ["accepted"]}


def _post(summary: str, takes: str, gives: dict[str, Any], also: tuple[str, ...] = ()) -> dict[str, Any]:
    error = {
        "description": "Refused; see the error.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": _one_or_many(takes)}}},
        "responses": {
            "200": {"description": "Done.", "content": {"application/json": {"schema": gives}}},
            **dict.fromkeys(("400", "401", "403", "413", "415", "422", "431", "503", *also), error),
        },
    }


def _get(summary: str, kind: str, also: tuple[str, ...] = ()) -> dict[str, Any]:
    found = {"description": "Done.", "content": {kind: {}}}
    return {"summary": summary, "responses": {"200": found, **dict.fromkeys(also, found)}}
