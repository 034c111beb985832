package config

import (
	"time"

	"github.com/seed62658d38/watchdog/loop"
)

const loopBlock = controlsBlock + ".loop"

// The paths of settings on which others depend.
const (
	periodPath = loopBlock + ".period"
	pairsPath  = loopBlock + ".pairs"
	windowPath = loopBlock + ".window"
	futilePath = loopBlock + ".futile"
	pollsPath  = loopBlock + ".polls"
	fusePath   = loopBlock + ".fuse"
	fuseOfPath = loopBlock + ".fuse_of"
)

// loopRules are the paths of what finds a loop.
var loopRules = []string{periodPath, pairsPath, futilePath, pollsPath, fusePath}

const lacksRule = loopBlock + " has no rule that is on"

const (
	allowedOften = "a whole number from 2 to 64, or 0 for never"
	allowedTurns = "a whole number of turns from 1 to 128"
)

// loopKeys say when a run repeats itself. A file of the host's may have most of their names for something else.
var loopKeys = []key{
	{
		block: loopBlock, name: "period", variable: "WATCHDOG_LOOP_PERIOD", common: true,
		allowed: "a whole number from 1 to 32, or 0 for no rounds",
		kind: count[int]{
			field:    func(c *Config) *int { return &c.Loop.Period },
			fallback: loop.DefaultPeriod, least: 1, most: loop.MaxPeriod, zero: loop.NoLimit,
		},
	},
	{
		block: loopBlock, name: "rounds", variable: "WATCHDOG_LOOP_ROUNDS", common: true, needs: []string{periodPath},
		allowed: "a whole number from 2 to 64",
		kind: count[int]{
			field: func(c *Config) *int { return &c.Loop.Rounds }, fallback: loop.DefaultRounds, least: 2, most: loop.MaxCount,
		},
	},
	{
		block: loopBlock, name: "pairs", variable: "WATCHDOG_LOOP_PAIRS", common: true,
		allowed: allowedOften,
		kind: count[int]{
			field:    func(c *Config) *int { return &c.Loop.Pairs },
			fallback: loop.DefaultPairs, least: 2, most: loop.MaxCount, zero: loop.NoLimit,
		},
	},
	{
		block: loopBlock, name: "futile", variable: "WATCHDOG_LOOP_FUTILE",
		allowed: allowedOften,
		kind: count[int]{
			field:    func(c *Config) *int { return &c.Loop.Futile },
			fallback: loop.DefaultFutile, least: 2, most: loop.MaxCount, zero: loop.NoLimit,
		},
	},
	{
		block: loopBlock, name: "window", variable: "WATCHDOG_LOOP_WINDOW", common: true,
		needs:   []string{pairsPath, futilePath},
		allowed: allowedTurns,
		kind: count[int]{
			field: func(c *Config) *int { return &c.Loop.Window }, fallback: loop.DefaultWindow, least: 1, most: loop.MaxWindow,
		},
	},
	{
		block: loopBlock, name: "after", variable: "WATCHDOG_LOOP_AFTER", common: true,
		needs:   []string{periodPath, pairsPath, futilePath},
		allowed: "a whole number from 1 to 64",
		kind: count[int]{
			field: func(c *Config) *int { return &c.Loop.After }, fallback: loop.DefaultAfter, least: 1, most: loop.MaxCount,
		},
	},
	{
		block: loopBlock, name: "fuse", variable: "WATCHDOG_LOOP_FUSE", common: true,
		allowed: "a whole number from 1 to fuse_of, or 0 for never",
		kind: fuse{count[int]{
			field:    func(c *Config) *int { return &c.Loop.Fuse },
			fallback: loop.DefaultFuse, least: 1, most: loop.MaxWindow, zero: loop.NoLimit,
		}},
	},
	{
		block: loopBlock, name: "fuse_of", variable: "WATCHDOG_LOOP_FUSE_OF", needs: []string{fusePath},
		allowed: allowedTurns,
		kind: count[int]{
			field: func(c *Config) *int { return &c.Loop.FuseOf }, fallback: loop.DefaultFuseOf, least: 1, most: loop.MaxWindow,
		},
	},
	{
		block: loopBlock, name: "polls", variable: "WATCHDOG_LOOP_POLLS", common: true,
		allowed: "a whole number from 2 to 1000000, or 0 for never",
		kind: count[int]{
			field:    func(c *Config) *int { return &c.Loop.Polls },
			fallback: loop.DefaultPolls, least: 2, zero: loop.NoLimit,
		},
	},
	{
		block: loopBlock, name: "poll_gap", variable: "WATCHDOG_LOOP_POLL_GAP", needs: loopRules, lacks: lacksRule,
		allowed: allowedLength,
		kind: length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Loop.Poll },
			fallback: loop.DefaultPoll,
			nonzero:  "does not say whether every call that repeats is a poll or none",
		}},
	},
	{
		block: loopBlock, name: "volatile", variable: "WATCHDOG_LOOP_VOLATILE", common: true,
		needs: loopRules, lacks: lacksRule,
		allowed: "a list of the names of different fields, in a file such as [elapsed, request_id], " +
			"in the environment such as elapsed,request_id, or 0 for none",
		kind: fieldNames{field: func(c *Config) *[]string { return &c.Loop.Volatile }},
	},
}
