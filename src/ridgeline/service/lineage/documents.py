"""The OpenLineage events of a run: what it is, what it reads and writes, and how much so far."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import without_tuple
from ridgeline.api.support.masking import mask_text, printable
from ridgeline.measure.answers.application import OperatorTotalsAnswer
from ridgeline.plan.logical import LogicalOperator, LogicalPlan
from ridgeline.service.lineage.columns import Columns, column_lineage, joined, names_of
from ridgeline.service.lineage.datasets import Dataset, datasets_of

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

PRODUCER = "urn:ridgeline"
_LONGEST_REASON = 4000


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a run. `application_id`: of the run and its driver. `namespace`: that of the job."""

    application: str
    application_id: str
    namespace: str
    user: str
    version: str
    every_seconds: float

    @property
    def run_id(self) -> str:
        """A UUID, the same whenever it is made."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"ridgeline:{self.application_id}"))


@dataclass(slots=True)
class _Found:
    """A dataset of a plan. `rows`: None where several datasets share an operator."""

    dataset: Dataset
    schema: Schema | None
    rows: int | None
    columns: Columns


def run_event(
    state: str,
    at: float,
    facts: RunFacts,
    plan: LogicalPlan,
    totals: Mapping[str, OperatorTotalsAnswer],
    reason: str = "",
) -> RunEvent:
    """One event: `state` is START, RUNNING, COMPLETE, FAIL or ABORT.

    Args:
        state: As OpenLineage names them.
        at: Seconds since 1970.
        facts: Those of the run.
        plan: The present plan, with whose operators the datasets are found.
        totals: By operator, the tuples so far.
        reason: Why it has failed.
    """
    from openlineage.client import event_v2 as events
    from openlineage.client import facet_v2 as facets

    run_facets: dict[str, Any] = {
        "processing_engine": facets.processing_engine_run.ProcessingEngineRunFacet(
            version=facts.version, name="ridgeline", openlineageAdapterVersion=facts.version
        )
    }
    if reason:
        text = printable(mask_text(without_tuple(reason)))[:_LONGEST_REASON]
        run_facets["errorMessage"] = facets.error_message_run.ErrorMessageRunFacet(text, "PYTHON")
    name = f"{plan.application}.{plan.region}" if plan.region else plan.application
    job = events.Job(
        namespace=facts.namespace,
        name=printable(mask_text(name)),
        facets={
            "jobType": facets.job_type_job.JobTypeJobFacet(
                processingType="STREAMING",
                integration="RIDGELINE",
                jobType="APPLICATION",
                emissionPattern=facets.job_type_job.EmissionPattern(
                    "PERIODIC", "ACCUMULATIVE", round(facts.every_seconds) or 1
                ),
            ),
            "ownership": facets.ownership_job.OwnershipJobFacet(
                [facets.ownership_job.Owner(f"user:{facts.user}", "STARTED_BY")]
            ),
        },
    )
    inputs, outputs = _found(plan, totals)
    return events.RunEvent(
        eventTime=datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
        producer=PRODUCER,
        eventType=events.RunState[state],
        run=events.Run(runId=facts.run_id, facets=run_facets),
        job=job,
        inputs=[_input(one) for one in inputs],
        outputs=[_output(one) for one in outputs],
    )


def _found(
    plan: LogicalPlan, totals: Mapping[str, OperatorTotalsAnswer]
) -> tuple[list[_Found], list[_Found]]:
    """The datasets that a plan reads, and those that it writes, each once."""
    lineage = column_lineage(plan)
    inputs: dict[Dataset, _Found] = {}
    outputs: dict[Dataset, _Found] = {}
    for operator in plan.operators:
        total = totals.get(operator.name)
        for one in _of_operator(operator, lineage.get(operator.name, {}), total):
            known = inputs if operator.is_input else outputs
            before = known.get(one.dataset)
            known[one.dataset] = one if before is None else _sum(before, one)
    return list(inputs.values()), list(outputs.values())


def _of_operator(
    operator: LogicalOperator, columns: Columns, total: OperatorTotalsAnswer | None
) -> Iterator[_Found]:
    datasets = datasets_of(operator.operator)
    schemas = operator.outputs if operator.is_input else operator.inputs
    schema = next(iter(schemas.values()), None)
    rows = None
    if total is not None and len(datasets) == 1:
        rows = total["tuplesOut"] if operator.is_input else total["tuplesIn"]
    for dataset in datasets:
        yield _Found(dataset, schema, rows, {} if operator.is_input else columns)


def _sum(before: _Found, one: _Found) -> _Found:
    """A dataset that two operators read or write: its columns come from those of both."""
    rows = None if before.rows is None or one.rows is None else before.rows + one.rows
    return _Found(before.dataset, before.schema, rows, joined([before.columns, one.columns]))


def _facets(one: _Found) -> dict[str, Any]:
    """The facets that inputs and outputs have alike."""
    from openlineage.client import facet_v2 as facets

    schema = one.schema
    if schema is None or not names_of(schema):
        return {}
    fields = [
        facets.schema_dataset.SchemaDatasetFacetFields(name=field.name, type=str(field.type))
        for field in schema.arrow
    ]
    return {"schema": facets.schema_dataset.SchemaDatasetFacet(fields=fields)}


def _input(one: _Found) -> Any:
    """A dataset that is read, with its facets."""
    from openlineage.client import event_v2 as events
    from openlineage.client import facet_v2 as facets

    statistics: dict[str, Any] = {}
    if one.rows is not None:
        kind = facets.input_statistics_input_dataset.InputStatisticsInputDatasetFacet
        statistics["inputStatistics"] = kind(rowCount=one.rows)
    return events.InputDataset(
        namespace=one.dataset.namespace,
        name=one.dataset.name,
        facets=_facets(one),
        inputFacets=statistics,
    )


def _output(one: _Found) -> Any:
    """A dataset that is written, with its facets and those of its columns."""
    from openlineage.client import event_v2 as events
    from openlineage.client import facet_v2 as facets

    statistics: dict[str, Any] = {}
    if one.rows is not None:
        kind = facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        statistics["outputStatistics"] = kind(rowCount=one.rows)
    return events.OutputDataset(
        namespace=one.dataset.namespace,
        name=one.dataset.name,
        facets={**_facets(one), **_lineage(one)},
        outputFacets=statistics,
    )


def _lineage(one: _Found) -> dict[str, Any]:
    """The facets that say which columns a dataset is made of, and of which columns that is not known."""
    from openlineage.client.facet_v2 import DatasetFacet
    from openlineage.client.facet_v2 import column_lineage_dataset as facets

    fields: dict[str, Any] = {}
    unknown: list[str] = []
    for name in () if one.schema is None else names_of(one.schema):
        sources = one.columns.get(name)
        if sources is None:
            unknown.append(name)
        elif sources:
            fields[name] = facets.Fields(
                [
                    facets.InputField(
                        *source.dataset,
                        source.field,
                        [facets.Transformation("DIRECT", "IDENTITY" if source.same else "TRANSFORMATION")],
                    )
                    for source in sorted(sources)
                ]
            )
    found: dict[str, Any] = {}
    if fields:
        found["columnLineage"] = facets.ColumnLineageDatasetFacet(fields=fields)
    if unknown:
        found["ridgeline_unknownColumns"] = DatasetFacet().with_additional_properties(columns=unknown)
    return found
