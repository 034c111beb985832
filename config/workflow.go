package config

import (
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/stall"
)

// StepSettings holds the stall settings in force for one step of a workflow, or for the completion check of one.
// [Config.Step] returns it.
type StepSettings struct {
	// Stall is ready for [stall.Run] once the host has added what a file cannot hold, such as RunID and Artifacts. Its
	// Step is the name of the step; a completion check has .completion_check after it. It is Disabled if the file or the
	// one switch says so.
	Stall stall.Config
	// CaptureStderr says that the host should set Stall.Tail, which needs a func that redacts.
	CaptureStderr bool
	// StallClass and TerminalClass are what the host calls an error of this step, by the kind of its trip. Empty means
	// that the file does not say.
	StallClass, TerminalClass string
	// DecisionFile is where a completion check writes its decision, for the host to read. Nothing here writes it.
	DecisionFile string
	// Check is the completion check of the step. It is nil if there is none, and in a completion check.
	Check *StepSettings

	settings []Setting
}

// Limits returns every setting of the step, with its value in force and where that came from. The settings of its
// completion check follow.
func (s StepSettings) Limits() []Setting {
	if s.Check == nil {
		return slices.Clone(s.settings)
	}
	return slices.Concat(s.settings, s.Check.settings)
}

// String returns one line for each setting, with its value and its source.
func (s StepSettings) String() string { return printed(s.Limits()) }

// checkSuffix comes after the name of a step for its completion check.
const checkSuffix = "." + checkBlock

// Steps returns the names of the steps of the file that can have stall settings, in the order of the file.
func (c *Config) Steps() []string {
	names := make([]string, len(c.workflow.steps))
	for i, s := range c.workflow.steps {
		names[i] = s.name
	}
	return names
}

// Step returns the stall settings in force for a step, merged field by field: defaults.stall, and over it the step's
// own; for its completion check defaults.stall, completion_check.stall of the top level, and its own. A list is
// replaced as a whole. A step that the file does not name has the defaults. Each call returns settings of its own.
func (c *Config) Step(name string) StepSettings {
	step := workflowStep{name: name}
	if i, known := c.workflow.index[name]; known {
		step = c.workflow.steps[i]
	}
	s := c.inForce(name, "steps."+shownName(name), false, c.workflow.layers(step))
	if step.hasCheck || c.workflow.hasCheck {
		place := "steps." + shownName(name) + checkSuffix
		check := c.inForce(name+checkSuffix, place, true, c.workflow.checkLayers(step))
		s.Check = &check
	}
	return s
}

// layers returns the blocks that a step is merged from, the first one first.
func (w workflow) layers(s workflowStep) []layer { return []layer{w.defaults, s.own} }

// checkLayers is layers for the completion check of a step.
func (w workflow) checkLayers(s workflowStep) []layer { return []layer{w.defaults, w.check, s.check} }

// inForce merges the layers of a step or a check. Place is where its own stall block would be.
func (c *Config) inForce(name, place string, isCheck bool, layers []layer) StepSettings {
	m := merge(layers, isCheck)
	if c.Disabled {
		m.Stall.Disabled = true
		m.sources[stepEnabledPath] = c.sources[disabledPath]
	}
	s := StepSettings{
		Stall: m.Stall, CaptureStderr: m.extras.captureStderr, StallClass: m.extras.stallClass,
		TerminalClass: m.extras.terminalClass, DecisionFile: m.extras.decisionFile,
	}
	s.Stall.Step = name
	for _, k := range stepKeys {
		path := k.path
		if k.path == decisionPath { // it stands beside the stall block
			path = k.name()
		}
		if isCheck || !k.ofCheck {
			setting := m.setting(k)
			setting.Key = place + "." + path
			s.settings = append(s.settings, setting)
		}
	}
	return s
}

// merge applies the layers, the first one first. The result has a Stall and extras, and the sources of the settings.
func merge(layers []layer, isCheck bool) *Config {
	m := &Config{sources: map[string]source{}}
	for _, l := range layers {
		for _, s := range l.settings {
			if isCheck || !s.key.ofCheck {
				_ = s.key.set(m, s.value) // it was set before, without an error
				m.sources[s.key.path] = s.from
			}
		}
	}
	m.adoptStall()
	m.adoptActivity()
	return m
}

// adoptActivity carries the word for the source of activity to the sentinel. The events of a worker are its output
// here; with probe_only there is no limit of silence.
func (c *Config) adoptActivity() {
	switch word := c.extras.activity; word {
	case activityProbe:
		c.Stall.NoOutput = 0
		c.sources[noOutputPath] = c.sources[activityPath]
	case activityWorker, activityEvent:
		c.Stall.ActivitySource = stall.ActivityAny
	default:
		c.Stall.ActivitySource = word
	}
}

// setOfSteps returns the settings of all steps that a file has set.
func (c *Config) setOfSteps() []Setting {
	var set []Setting
	for _, name := range c.Steps() {
		for _, s := range c.Step(name).Limits() {
			if s.Source != (source{}).String() {
				set = append(set, s)
			}
		}
	}
	return set
}

// checkWorkflow compares the settings of each step with each other. A setting is an error if it can take effect
// nowhere: that of a step in this step, that of the defaults in no step and no check.
func (c *Config) checkWorkflow() []*Error {
	var steps, checks []*Config
	w, faults := c.workflow, []*Error(nil)
	for _, s := range w.steps {
		own := merge(w.layers(s), false)
		steps = append(steps, own)
		faults = append(faults, s.own.without(own)...)
		if s.hasCheck || w.hasCheck {
			check := merge(w.checkLayers(s), true)
			checks = append(checks, check)
			faults = append(faults, s.check.without(check)...)
		}
	}
	unnamed := workflowStep{} // a step that the file does not name
	checks = append(checks, merge(w.checkLayers(unnamed), true))
	steps = append(steps, merge(w.layers(unnamed), false))
	faults = append(faults, w.check.without(checks...)...)
	return append(faults, w.defaults.without(append(steps, checks...)...)...)
}

// without returns an error for each setting of a layer that has no effect in any of the merged settings.
func (l layer) without(all ...*Config) []*Error {
	var faults []*Error
	for _, s := range l.settings {
		problem := ""
		for _, merged := range all {
			if problem = s.unused(l.place, merged); problem == "" {
				break
			}
		}
		if problem != "" {
			path := l.place + strings.TrimPrefix(s.path, stallBlock)
			faults = append(faults, s.from.fault(path, s.value.show, problem))
		}
	}
	return faults
}

// unused returns why a setting can never take effect: everything that it needs is off. See [Config.unused].
func (s placed) unused(place string, merged *Config) string {
	k := s.key
	if merged.Stall.Disabled || k.off(merged) {
		return ""
	}
	if k.path == activityPath && merged.extras.activity == activityProbe {
		k.needs = []string{commandPath}
	}
	return merged.unused(k, s.from, func(path string) string { return place + strings.TrimPrefix(path, stallBlock) })
}
