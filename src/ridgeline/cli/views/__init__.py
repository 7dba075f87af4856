"""The drawings of a run's metrics: pure functions from the dicts that REST gives to what rich prints."""
