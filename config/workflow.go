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
	s := c.inForce(step, false)
	if step.hasCheck || c.workflow.hasCheck {
		check := c.inForce(step, true)
		s.Check = &check
	}
	return s
}

func (c *Config) inForce(step workflowStep, isCheck bool) StepSettings {
	suffix := ""
	if isCheck {
		suffix = checkSuffix
	}
	m := c.workflow.merged(step, isCheck)
	if c.Disabled {
		m.Stall.Disabled = true
		m.sources[stepEnabledPath] = c.sources[disabledPath]
	}
	s := StepSettings{
		Stall: m.Stall, CaptureStderr: m.extras.captureStderr, StallClass: m.extras.stallClass,
		TerminalClass: m.extras.terminalClass, DecisionFile: m.extras.decisionFile,
	}
	s.Stall.Step = step.name + suffix
	for _, k := range stepKeys {
		setting := m.setting(k)
		if k.path == decisionPath { // it stands beside the stall block
			setting.Key = k.name()
		}
		setting.Key = stepsBlock + "." + shownName(step.name) + suffix + "." + setting.Key
		if isCheck || !k.ofCheck {
			s.settings = append(s.settings, setting)
		}
	}
	return s
}

// merged applies the blocks of a step or of its check, the first one first. The result has a Stall, extras and sources.
func (w workflow) merged(step workflowStep, isCheck bool) *Config {
	m := &Config{sources: map[string]source{}}
	layers := slices.Concat(w.defaults, step.own)
	if isCheck {
		layers = slices.Concat(w.defaults, w.check, step.check)
	}
	for _, s := range layers {
		if isCheck || !s.key.ofCheck {
			_ = s.key.set(m, s.value) // it was set before, without an error
			m.sources[s.key.path] = s.from
		}
	}
	m.adoptStall()
	switch word := m.extras.activity; word {
	case activityProbe: // there is no limit of silence
		m.Stall.NoOutput = 0
		m.sources[noOutputPath] = m.sources[activityPath]
	case activityWorker, activityEvent: // the events of a worker are its output here
		m.Stall.ActivitySource = stall.ActivityAny
	default:
		m.Stall.ActivitySource = word
	}
	return m
}

// checkWorkflow compares the settings of each step with each other. A setting is an error if it can take effect
// nowhere: that of a step in this step, that of the defaults in no step and no check.
func (c *Config) checkWorkflow() []*Error {
	var steps, checks []*Config
	w, faults := c.workflow, []*Error(nil)
	for _, s := range append(slices.Clip(w.steps), workflowStep{}) { // and a step that the file does not name
		own := w.merged(s, false)
		steps = append(steps, own)
		faults = append(faults, without(s.own, own)...)
		if s.hasCheck || w.hasCheck || s.name == "" {
			check := w.merged(s, true)
			checks = append(checks, check)
			faults = append(faults, without(s.check, check)...)
		}
	}
	faults = append(faults, without(w.check, checks...)...)
	return append(faults, without(w.defaults, append(steps, checks...)...)...)
}

// without returns an error for each setting that has no effect in any of the merged settings.
func without(settings []placed, all ...*Config) (faults []*Error) {
	for _, s := range settings {
		problem := ""
		for _, merged := range all {
			if problem = s.unused(merged); problem == "" {
				break
			}
		}
		if problem != "" {
			faults = append(faults, s.from.fault(s.place, s.value.show, problem))
		}
	}
	return faults
}

// unused returns why a setting can never take effect: everything that it needs is off. See [Config.unused].
func (s placed) unused(merged *Config) string {
	k, block := s.key, strings.TrimSuffix(s.place, strings.TrimPrefix(s.path, stallBlock))
	if merged.Stall.Disabled || k.off(merged) {
		return ""
	}
	if k.path == activityPath && merged.extras.activity == activityProbe {
		k.needs = []string{commandPath}
	}
	return merged.unused(k, s.from, func(path string) string { return block + strings.TrimPrefix(path, stallBlock) })
}
