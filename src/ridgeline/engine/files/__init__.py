"""Files of checkpoints: where they are, who may write them, whether they are whole."""
