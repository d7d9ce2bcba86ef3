"""The built-in plugins, one module or package each. Profiles enable and weigh them; see `trimtab.config.registry`."""
