"""What the rows of a snapshot come from: snapshot properties that commits carry on."""
