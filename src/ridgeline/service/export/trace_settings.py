"""Settings of traces: from the options of a run, and from OpenTelemetry's environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask_text

RATIO = 0.01
SLOW = 3.0
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Which windows are traced, and where their traces go.

    `endpoint`: the URL of the collector's traces; None: as OpenTelemetry's variables say. `ratio`: the share
    of all windows. `slow`: windows that take this many times the median of the last ones are always traced.
    """

    endpoint: str | None
    ratio: float = RATIO
    slow: float = SLOW


def trace_settings(
    otlp: str | None, ratio: float | None, slow: float | None, environment: Mapping[str, str]
) -> TraceSettings | None:
    """The settings of a run's traces; None: none are wanted.

    Args:
        otlp: The collector's URL, an option of the run. None: as the variables say, if they say one.
        ratio: The share of windows, 0 to 1. None: as `OTEL_TRACES_SAMPLER` says, else 0.01.
        slow: How many medians make a window slow, at least 1. None: 3.
        environment: The variables.

    Raises:
        RidgelineError: A value that is none, or a protocol that is not spoken.
    """
    wanted = otlp is not None or any(environment.get(name) for name in _ENDPOINTS)
    if not wanted or environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if otlp is None and environment.get("OTEL_TRACES_EXPORTER", "otlp").strip() not in {"", "otlp"}:
        return None
    if otlp is None:
        _check_protocol(environment)
    sampler = "`--trace-ratio`"
    if ratio is None:
        ratio, sampler = _sampled(environment), "`OTEL_TRACES_SAMPLER_ARG`"
    if not 0 <= ratio <= 1:
        raise RidgelineError(f"{sampler} is a share of all windows, from 0 to 1; got {ratio:g}")
    slow = SLOW if slow is None else slow
    if not slow >= 1:
        raise RidgelineError(f"`--trace-slow` counts medians, at least 1; got {slow:g}; 3 is usual")
    return TraceSettings(None if otlp is None else signal_url(otlp, "traces"), ratio, slow)


def signal_url(endpoint: str, signal: str) -> str:
    """The URL of a signal, `traces` or `metrics`, at a collector. Raises RidgelineError for what is no URL.

    >>> signal_url("http://localhost:4318/", "traces")
    'http://localhost:4318/v1/traces'
    """
    try:
        parts = urlsplit(endpoint)
        whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        path = parts.path
    except ValueError:
        whole, path = False, ""
    if not whole:
        raise RidgelineError(
            f"an OTLP endpoint is a URL; got `{mask_text(endpoint)}`; did you mean `http://localhost:4318`?"
        )
    return endpoint.rstrip("/") + f"/v1/{signal}" if path in {"", "/"} else endpoint


def _check_protocol(environment: Mapping[str, str]) -> None:
    """Refuse a protocol that the variables name and that is not spoken."""
    for name in _PROTOCOLS:
        spoken = environment.get(name, "").strip()
        if spoken and spoken != _SPOKEN:
            remedy = f"set `{name}={_SPOKEN}` and the endpoint's port for it, mostly 4318"
            raise RidgelineError(f"`{name}={spoken}`: traces are sent by `{_SPOKEN}` only; {remedy}")
        if spoken:
            return


def _sampled(environment: Mapping[str, str]) -> float:
    """The ratio that the variables of OpenTelemetry name."""
    sampler = environment.get("OTEL_TRACES_SAMPLER", "").strip().lower().removeprefix("parentbased_")
    if sampler in {"always_on", "always_off"}:
        return float(sampler == "always_on")
    given = environment.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    if sampler != "traceidratio" or not given:
        return RATIO
    try:
        return float(given)
    except ValueError:
        raise RidgelineError(
            f"`OTEL_TRACES_SAMPLER_ARG={given}` is no number; give a share from 0 to 1"
        ) from None
