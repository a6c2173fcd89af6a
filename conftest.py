pytest_plugins = ["sensei.plugin"]
