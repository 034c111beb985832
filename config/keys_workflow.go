package config

import (
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/stall"
)

// The paths of settings of steps. They are those of the stall block, wherever it stands.
const (
	stallActionBlock    = stallBlock + ".on_stall"
	terminalActionBlock = stallBlock + ".on_terminal"
	activityPath        = stallBlock + ".activity_source"
	stepEnabledPath     = stallBlock + ".enabled"
	decisionPath        = stallBlock + ".decision_file"
	incompletePath      = stallBlock + ".as_incomplete"
	prefixPath          = stallBlock + ".fingerprint_prefix"
	classPath           = stallBlock + ".error_class"
)

// The words for the source of activity of a worker, beside those of a command.
const (
	activityWorker stall.ActivitySource = "worker_event"
	activityEvent  stall.ActivitySource = "any_event"
	activityProbe  stall.ActivitySource = "probe_only"
)

// onlyOfChecks are the paths of settings that have no meaning for a step itself.
var onlyOfChecks = []string{incompletePath, decisionPath}

// extras are the settings of a step that a [stall.Config] does not hold.
type extras struct {
	activity                  stall.ActivitySource
	captureStderr             bool
	captureProbe              bool // read and not used
	stallClass, terminalClass string
	decisionFile              string
}

const allowedClass = "at most 100 letters, digits, dots, hyphens and underscores, such as RETRYABLE_TRANSIENT"

// stepKeys are the settings of a stall block in a workflow: those of the stall block at the top level and some more.
var stepKeys = slices.Concat([]key{
	{
		block: stallBlock, name: "enabled", needs: signals, common: true,
		allowed: "true or false",
		kind:    flag{field: func(c *Config) *bool { return &c.Stall.Disabled }, inverted: true},
	},
}, commonKeys(), []key{
	{
		block: stallBlock, name: "capture_stderr", needs: signals,
		allowed: "true or false",
		kind:    flag{field: func(c *Config) *bool { return &c.extras.captureStderr }},
	},
	{
		block: probeBlock, name: "capture_stderr",
		allowed: "true or false",
		kind:    notUsed{flag{field: func(c *Config) *bool { return &c.extras.captureProbe }}},
	},
	{
		block: stallActionBlock, name: "error_class", needs: []string{noOutputPath, commandPath}, common: true,
		allowed: allowedClass,
		kind:    plainText{field: func(c *Config) *string { return &c.extras.stallClass }, form: classForm},
	},
	{
		block: terminalActionBlock, name: "error_class", needs: []string{commandPath, patternsPath}, common: true,
		allowed: allowedClass,
		kind:    plainText{field: func(c *Config) *string { return &c.extras.terminalClass }, form: classForm},
	},
	{
		block: stallBlock, name: "as_incomplete", needs: signals,
		allowed: "true or false",
		kind:    flag{field: func(c *Config) *bool { return &c.Stall.AsIncomplete }},
	},
	{
		block: stallBlock, name: "decision_file",
		allowed: "a path such as .loop/review.verdict",
		kind:    plainText{field: func(c *Config) *string { return &c.extras.decisionFile }},
	},
})

// commonKeys are the keys of the stall block at the top level as a workflow has them: without a variable, with the
// sources of activity of a worker, and with a list as a prefix.
func commonKeys() []key {
	common := slices.Clone(stallKeys)
	for i := range common {
		k := &common[i]
		k.variable = ""
		switch k.path() {
		case activityPath:
			k.allowed = "output, stdout, stderr, worker_event, any_event or probe_only"
			k.kind = choice[stall.ActivitySource]{
				field: func(c *Config) *stall.ActivitySource { return &c.extras.activity },
				what:  "an output",
				known: []stall.ActivitySource{
					stall.ActivityAny, stall.ActivityStdout, stall.ActivityStderr, activityWorker, activityEvent, activityProbe,
				},
				fallback: stall.ActivityAny,
			}
		case prefixPath:
			k.allowed += ", or a list such as [phase, build]"
			k.kind = prefixes{k.kind.(prefix)}
		}
	}
	return common
}

// otherPaths are where a setting of a step may also be written, and which one it is.
var otherPaths = map[string]string{
	stallBlock + ".grace_int":                   stallBlock + ".interrupt_grace",
	stallBlock + ".grace_term":                  stallBlock + ".terminate_grace",
	probeBlock + ".stall_threshold":             stallBlock + ".stall_threshold",
	stallActionBlock + ".action":                stallActionBlock,
	terminalActionBlock + ".action":             terminalActionBlock,
	stallActionBlock + ".as_incomplete":         incompletePath,
	terminalActionBlock + ".as_incomplete":      incompletePath,
	stallActionBlock + ".fingerprint_prefix":    prefixPath,
	terminalActionBlock + ".fingerprint_prefix": prefixPath,
}

// ofBothActions are the settings that a sentinel has once, and a workflow may write for each action.
var ofBothActions = []string{incompletePath, prefixPath}

// stepKeysAt returns the settings that a path of a stall block sets. An error class of the block is that of both
// actions.
func stepKeysAt(path string) []key {
	if other, known := otherPaths[path]; known {
		path = other
	}
	paths := []string{path}
	if path == classPath {
		paths = []string{stallActionBlock + ".error_class", terminalActionBlock + ".error_class"}
	}
	var found []key
	for _, k := range stepKeys {
		if slices.Contains(paths, k.path()) {
			found = append(found, k)
		}
	}
	return found
}

// stepNames returns the keys and inner blocks of a stall block in a workflow, or of one of its inner blocks.
func stepNames(block string) []string {
	paths := make([]string, 0, len(stepKeys)+len(otherPaths)+1)
	for _, k := range stepKeys {
		paths = append(paths, k.path())
	}
	var others []string
	for other := range otherPaths {
		others = append(others, other)
	}
	slices.Sort(others)
	var names []string
	for _, path := range append(append(paths, classPath), others...) {
		inside, ok := strings.CutPrefix(path, block+".")
		name, _, _ := strings.Cut(inside, ".")
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// isStepBlock reports whether a path is an inner block: one of the stall block, or an action that is a mapping.
func isStepBlock(path string, mapping bool) bool {
	return slices.Contains(innerBlocks, path) || mapping && (path == stallActionBlock || path == terminalActionBlock)
}
