package config

import "strings"

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
			faults = append(faults, s.from.faultAt(path, s.value.show, problem))
		}
	}
	return faults
}

// unused returns why a setting can never take effect: everything that it needs is off. See [Config.unused].
func (s placed) unused(place string, merged *Config) string {
	if merged.Stall.Disabled || s.key.kind.off(merged) {
		return ""
	}
	needs := s.key.needs
	if s.key.path() == activityPath && merged.extras.activity == activityProbe {
		needs = []string{commandPath}
	}
	var off []string
	for _, path := range needs {
		needed := stepKeysAt(path)[0]
		if !needed.kind.off(merged) {
			return ""
		}
		at := place + strings.TrimPrefix(path, stallBlock)
		off = append(off, merged.sources[path].switchedOff(at))
	}
	if len(off) == 0 {
		return ""
	}
	return "can never take effect: " + strings.Join(off, " and ")
}
