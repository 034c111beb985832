package eventtest

import "github.com/seed62658d38/watchdog/internal/contract"

// The rules of Run and RunDurable.
var (
	EventRules   = eventRules
	DurableRules = func() []contract.Rule[opener] { return durableRules }
)
