package config

import "github.com/seed62658d38/watchdog"

// The blocks of what a run may use besides time.
const (
	spendBlock        = controlsBlock + ".spend"
	spendReserveBlock = spendBlock + ".reserve"
)

// The paths of settings on which others depend.
const (
	inputTokensPath  = spendBlock + ".input_tokens"
	outputTokensPath = spendBlock + ".output_tokens"
	tokensPath       = spendBlock + ".tokens"
	callInputPath    = spendBlock + ".call_input"
	costPath         = spendBlock + ".cost"
	requestsPath     = spendBlock + ".requests"
	turnsPath        = spendBlock + ".turns"
	toolCallsPath    = spendBlock + ".tool_calls"
	toolsPath        = spendBlock + ".tools"
	errorsPath       = spendBlock + ".errors"
	retriesPath      = spendBlock + ".retries"

	reserveCostPath = spendReserveBlock + ".cost"
)

// spendLimits are the paths of the limits, without what tunes them.
var spendLimits = []string{
	inputTokensPath, outputTokensPath, tokensPath, callInputPath, costPath, requestsPath, turnsPath, toolCallsPath,
	toolsPath, errorsPath, retriesPath,
}

// onlyOfRuns are the paths of those that no scope can have.
var onlyOfRuns = []string{callInputPath, errorsPath, retriesPath}

const (
	allowedQuantity = "a whole number such as 100000, or 0 for no limit"
	allowedReserve  = "a whole number less than the limit, such as 5000, or 0 for none"
)

// spendKeys are the limits that are counted, of a run and of what runs share. Their names are those of the events.
var spendKeys = []key{
	{
		block: spendBlock, name: "input_tokens", variable: "WATCHDOG_SPEND_INPUT_TOKENS",
		allowed: allowedQuantity,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.InputTokens }},
	},
	{
		block: spendBlock, name: "output_tokens", variable: "WATCHDOG_SPEND_OUTPUT_TOKENS",
		allowed: allowedQuantity,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.OutputTokens }},
	},
	{
		block: spendBlock, name: "tokens", variable: "WATCHDOG_SPEND_TOKENS",
		allowed: allowedQuantity,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.Tokens }},
	},
	{
		block: spendBlock, name: "call_input", variable: "WATCHDOG_SPEND_CALL_INPUT",
		allowed: allowedQuantity,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.CallInput }},
	},
	{
		block: spendBlock, name: "cost", variable: "WATCHDOG_SPEND_COST",
		allowed: "an amount of money with its currency such as 5.00 EUR, or 0 for no limit",
		kind: money{
			micros:   func(c *Config) *int64 { return &c.Budget.Spend.Cost.Micros },
			currency: func(c *Config) *string { return &c.Budget.Spend.Cost.Currency },
		},
	},
	{
		block: spendBlock, name: "requests", variable: "WATCHDOG_SPEND_REQUESTS",
		allowed: allowedQuantity,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.Requests }},
	},
	{
		block: spendBlock, name: "turns", variable: "WATCHDOG_SPEND_TURNS",
		allowed: allowedQuantity,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.Turns }},
	},
	{
		block: spendBlock, name: "tool_calls", variable: "WATCHDOG_SPEND_TOOL_CALLS",
		allowed: allowedQuantity,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.ToolCalls }},
	},
	{
		block: spendBlock, name: "tools", variable: "WATCHDOG_SPEND_TOOLS",
		allowed: "the names of tools with whole numbers of calls, in a file such as {bash: 100, search: 20}, " +
			"in the environment such as bash=100,search=20, or 0 for no limit",
		kind: byTool[int64]{
			field: func(c *Config) *map[string]int64 { return &c.Budget.Spend.Tools },
			one:   "number", all: "numbers", no: "off", parse: parseQuantity,
		},
	},
	{
		block: spendBlock, name: "errors", variable: "WATCHDOG_SPEND_ERRORS",
		allowed: allowedQuantity,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.Errors }},
	},
	{
		block: spendBlock, name: "retries", variable: "WATCHDOG_SPEND_RETRIES",
		allowed: allowedQuantity,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.Retries }},
	},
	{
		block: spendReserveBlock, name: "input_tokens", variable: "WATCHDOG_SPEND_RESERVE_INPUT_TOKENS",
		needs:   []string{inputTokensPath},
		allowed: allowedReserve,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.Reserve.InputTokens }},
	},
	{
		block: spendReserveBlock, name: "output_tokens", variable: "WATCHDOG_SPEND_RESERVE_OUTPUT_TOKENS",
		needs:   []string{outputTokensPath},
		allowed: allowedReserve,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.Reserve.OutputTokens }},
	},
	{
		block: spendReserveBlock, name: "tokens", variable: "WATCHDOG_SPEND_RESERVE_TOKENS",
		needs:   []string{tokensPath},
		allowed: allowedReserve,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.Reserve.Tokens }},
	},
	{
		block: spendReserveBlock, name: "cost", variable: "WATCHDOG_SPEND_RESERVE_COST", needs: []string{costPath},
		allowed: "an amount of money less than the limit, with its currency, such as 0.50 EUR, or 0 for none",
		kind: money{
			micros:   func(c *Config) *int64 { return &c.Budget.Spend.Reserve.Cost },
			currency: func(c *Config) *string { return &c.reserveCurrency },
		},
	},
	{
		block: spendReserveBlock, name: "requests", variable: "WATCHDOG_SPEND_RESERVE_REQUESTS",
		needs:   []string{requestsPath},
		allowed: allowedReserve,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.Reserve.Requests }},
	},
	{
		block: spendReserveBlock, name: "turns", variable: "WATCHDOG_SPEND_RESERVE_TURNS",
		needs:   []string{turnsPath},
		allowed: allowedReserve,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.Reserve.Turns }},
	},
	{
		block: spendReserveBlock, name: "tool_calls", variable: "WATCHDOG_SPEND_RESERVE_TOOL_CALLS",
		needs:   []string{toolCallsPath},
		allowed: allowedReserve,
		kind:    quantity{field: func(c *Config) *int64 { return &c.Budget.Spend.Reserve.ToolCalls }},
	},
	{
		block: spendBlock, name: "warn_at", variable: "WATCHDOG_SPEND_WARN_AT", needs: spendLimits,
		lacks: spendBlock + " has no limit",
		allowed: "different fractions between 0 and 1, in a file such as [0.5, 0.8], " +
			"in the environment such as 0.5,0.8, or 0 for none",
		kind: spendWarnings{fractions{
			field:    func(c *Config) *[]float64 { return &c.Budget.Spend.WarnAt },
			fallback: []float64{watchdog.DefaultWarnAt},
		}},
	},
}
