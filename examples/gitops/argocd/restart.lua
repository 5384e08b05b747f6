local os = require("os")
obj.spec.restartedAt = os.date("!%Y-%m-%dT%H:%M:%SZ")
return obj
