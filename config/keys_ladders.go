package config

import "github.com/seed62658d38/watchdog"

const laddersBlock = controlsBlock + ".ladders"

const allowedLadder = "wait, retry, unstuck and cancel in any number, cancel only as the last, " +
	"in a file such as [retry, retry, cancel], in the environment such as retry,retry,cancel"

// ladderKeys are what the trips of limits ask for. One that needs nothing may be for a limit that is not in this file.
var ladderKeys = []key{
	{
		block: laddersBlock, name: "idle", variable: "WATCHDOG_LADDERS_IDLE", // needs nothing: a hold may have its own idle
		allowed: allowedLadder,
		kind:    ladder{field: func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.Idle }},
	},
	{
		block: laddersBlock, name: "no_progress", variable: "WATCHDOG_LADDERS_NO_PROGRESS", needs: []string{noProgressPath},
		allowed: allowedLadder,
		kind:    ladder{field: func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.NoProgress }},
	},
	{
		block: laddersBlock, name: "hold", variable: "WATCHDOG_LADDERS_HOLD", // needs nothing: a hold may have its own cap
		allowed: allowedLadder,
		kind:    ladder{field: func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.Hold }},
	},
	// A scope of the host's may have the limits of the next five.
	{
		block: laddersBlock, name: "tokens", variable: "WATCHDOG_LADDERS_TOKENS",
		allowed: allowedLadder,
		kind:    ladder{field: func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.Tokens }},
	},
	{
		block: laddersBlock, name: "cost", variable: "WATCHDOG_LADDERS_COST",
		allowed: allowedLadder,
		kind:    ladder{field: func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.Cost }},
	},
	{
		block: laddersBlock, name: "requests", variable: "WATCHDOG_LADDERS_REQUESTS",
		allowed: allowedLadder,
		kind:    ladder{field: func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.Requests }},
	},
	{
		block: laddersBlock, name: "turns", variable: "WATCHDOG_LADDERS_TURNS",
		allowed: allowedLadder,
		kind:    ladder{field: func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.Turns }},
	},
	{
		block: laddersBlock, name: "tool_calls", variable: "WATCHDOG_LADDERS_TOOL_CALLS",
		allowed: allowedLadder,
		kind:    ladder{field: func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.ToolCalls }},
	},
	{
		block: laddersBlock, name: "call_input", variable: "WATCHDOG_LADDERS_CALL_INPUT", needs: []string{callInputPath},
		allowed: allowedLadder,
		kind:    ladder{field: func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.CallInput }},
	},
	{
		block: laddersBlock, name: "errors", variable: "WATCHDOG_LADDERS_ERRORS", needs: []string{errorsPath, retriesPath},
		allowed: allowedLadder,
		kind:    ladder{field: func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.Errors }},
	},
	{
		block: laddersBlock, name: "loop", variable: "WATCHDOG_LADDERS_LOOP", needs: []string{loopModePath},
		allowed: allowedLadder,
		kind: ladder{
			field:    func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.Loop },
			fallback: []watchdog.DirectiveKind{watchdog.DirectiveUnstuck},
		},
	},
}
