"""Programs: the live process, the doctor, the demo and label clean-up, put together from the other packages."""
