"""The scheduling framework: the plugin interface, profiles, and how one pod is filtered and scored."""
