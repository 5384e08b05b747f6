-- The actions that Argo CD offers for a ContinuousStream.
local suspended = obj.spec.suspend == true
return {
  restart = { disabled = suspended },
  suspend = { disabled = suspended },
  resume = { disabled = not suspended },
}
