"""What is drawn of a run's figures: pure functions from the dicts that REST gives to what rich prints."""
