package config

import (
	"slices"

	"github.com/seed62658d38/watchdog/loop"
)

const loopBlock = controlsBlock + ".loop"

const loopModePath = loopBlock + ".mode"

// loopKeys say what is done about a run that repeats itself. A file of the host's may have most of their names for
// something else.
var loopKeys = []key{
	{
		block: loopBlock, name: "mode", variable: "WATCHDOG_LOOP_MODE", common: true,
		allowed: "on, off or strict",
		kind: loopMode{choice[loop.Mode]{
			field: func(c *Config) *loop.Mode { return &c.Loop.Mode }, what: "a mode",
			known: []loop.Mode{loop.On, loop.Off, loop.Strict}, fallback: loop.On, offWord: loop.Off,
		}},
	},
	{
		block: loopBlock, name: "classes", variable: "WATCHDOG_LOOP_CLASSES", common: true, needs: []string{loopModePath},
		allowed: "the names of tools with look, change, wait, drive or person, in a file such as " +
			"{deploy: change, poll_job: wait}, in the environment such as deploy=change,poll_job=wait, or 0 for none",
		kind: byTool[loop.Class]{
			field: func(c *Config) *map[string]loop.Class { return &c.Loop.Classes },
			one:   "class", all: "classes", no: "none", parse: parseClass,
		},
	},
	{
		block: loopBlock, name: "waits", variable: "WATCHDOG_LOOP_WAITS", needs: []string{loopModePath},
		allowed: "go, ask or end",
		kind: choice[loop.Advice]{
			field: func(c *Config) *loop.Advice { return &c.Loop.Waits }, what: "what is done about waits",
			known: []loop.Advice{loop.Go, loop.Ask, loop.End}, fallback: loop.Go, offWord: loop.Go,
		},
	},
	{
		block: loopBlock, name: "volatile", variable: "WATCHDOG_LOOP_VOLATILE", common: true,
		needs: []string{loopModePath},
		allowed: "a list of the names of different fields, in a file such as [elapsed, request_id], " +
			"in the environment such as elapsed,request_id, or 0 for none",
		kind: fieldNames{field: func(c *Config) *[]string { return &c.Loop.Volatile }},
	},
}

// goneFromLoop are keys of the block that are no longer read, with the one to use.
var goneFromLoop = map[string]string{
	"period": "mode", "rounds": "mode", "pairs": "mode", "futile": "mode", "window": "mode", "after": "mode",
	"fuse": "mode", "fuse_of": "mode", "polls": "waits", "poll_gap": "classes",
}

// insteadOf returns the key to use for one of the block that is gone.
func insteadOf(name string) (instead key, gone bool) {
	use, gone := goneFromLoop[name]
	instead, _ = keyAt(loopBlock + "." + use)
	return instead, gone
}

// loopMode is the kind of the mode, which is on if it is left out.
type loopMode struct{ choice[loop.Mode] }

func (k loopMode) off(c *Config) bool { return *k.field(c) == k.offWord }

func parseClass(v value) (loop.Class, string) {
	if problem := wordProblem(v); problem != "" {
		return "", problem
	}
	classes := []loop.Class{loop.Look, loop.Change, loop.Wait, loop.Drive, loop.Person}
	if class := loop.Class(v.text); slices.Contains(classes, class) {
		return class, ""
	}
	return "", unknownWord(v.text, "a class", words(classes))
}
