-- The health of a ContinuousStream in Argo CD, from its conditions.
local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    conditions[condition.type] = condition
  end
end
local ready, stalled = conditions.Ready, conditions.Stalled
if ready == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "The operator has not looked at this spec yet" }
end
if stalled ~= nil and stalled.status == "True" then
  return { status = "Degraded", message = stalled.reason .. ": " .. stalled.message }
end
local message = ready.reason .. ": " .. ready.message
local reconciling = conditions.Reconciling
if reconciling ~= nil and reconciling.reason == "ReconciliationPaused" then
  return { status = "Suspended", message = reconciling.reason .. ": " .. reconciling.message }
end
if ready.status == "True" then
  -- The last applied spec runs; Reconciling says why the newest one does not yet.
  if reconciling ~= nil and reconciling.status == "True" then
    return { status = "Progressing", message = reconciling.reason .. ": " .. reconciling.message }
  end
  return { status = "Healthy", message = message }
end
local state = obj.status.state
if state == "Suspended" then
  return { status = "Suspended", message = message }
end
-- A stream that ran and failed; Pending, Starting and WaitingForCores are on the way to Running.
if state == "Restarting" or ready.status == "Unknown" then
  return { status = "Degraded", message = message }
end
return { status = "Progressing", message = message }
