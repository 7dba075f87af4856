"""Slots without a plan: containers are numbers."""

from ridgeline.stram.placement import PlanRules


class NoRules(PlanRules):
    """Wishes for nothing; containers go to the slots with the fewest."""

    def __init__(self):
        pass

    def host_preferences(self, placement, capacities, stay):
        return {}

    def broken(self, placement, where, capacities):
        return ()

    def move(self, placement, kept, where, loads):
        hosted = {slot: list(placement[slot]) for slot in kept}
        for container in sorted({one for some in placement for one in some}.difference(*hosted.values())):
            min(hosted.values(), key=len).append(container)
        return tuple(tuple(sorted(hosted.get(slot, ()))) for slot in range(len(placement)))

    def place(self, slots, loads, capacities=None):
        return None
