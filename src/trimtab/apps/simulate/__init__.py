"""`trimtab simulate`: runs a scenario under several policies and seeds, in parallel, and compares what came of it."""
