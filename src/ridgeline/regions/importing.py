"""Chooses the region whose states are taken out of Parquet: each has a run and windows of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ridgeline.api.application import Application
from ridgeline.api.errors import CheckpointError, did_you_mean, listed
from ridgeline.engine.driver.checkpoint.upkeep.contents import open_folder
from ridgeline.engine.driver.checkpoint.upkeep.importing import Listing, regions_in
from ridgeline.plan.execution import Plan
from ridgeline.regions.planning import MakePlanner, PlannedRegion, plan_regions, read_kept


def region_to_import(
    app: Application,
    whole: Plan,
    make_planner: MakePlanner,
    folder: str,
    listing: Listing,
    operators: Collection[str],
    region: str | None,
) -> PlannedRegion | None:
    """The region whose states an import replaces; None of an application without several.

    `listing`: of the folder with the rows.
    `operators`: the names of those wanted, none: all. `region`: as the user says it. An import is one record
    of one journal, so it is into one region. Raises CheckpointError, ValidationError.
    """
    if not whole.logical.regions:
        if region is not None:
            raise CheckpointError(f"`--region {region}`: the application has no regions; leave it out")
        return None
    root = open_folder(folder)
    kept = read_kept(root)
    if not kept:
        raise CheckpointError(f"`{root.uri}` has no window yet: there is no state to replace")
    planned = plan_regions(app, whole, make_planner, root.uri, kept)
    name = region or _only(regions_in(listing, operators), planned)
    found = next((one for one in planned if one.name == name), None)
    if found is None:
        names = [one.name for one in planned]
        raise CheckpointError(f"there is no region `{name}`; {did_you_mean(name, names)}")
    return found


def _only(regions: Sequence[str], planned: Sequence[PlannedRegion]) -> str:
    """The one region of some states. Raises CheckpointError."""
    if regions == [""]:
        msg = "the rows are of an application without regions, and this one has several: export again"
        raise CheckpointError(msg)
    if len(regions) != 1:
        names = [one.name for one in planned if one.name in regions]
        msg = f"the rows are of the regions {listed(names)}, and each is imported as a window of its own: "
        msg += "give `--region` with one of them, then with the next"
        raise CheckpointError(msg)
    return regions[0]
