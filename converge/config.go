package converge

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog"
)

// DefaultAfter is how often in a row the same set leaves a stage that does not say.
const DefaultAfter = 2

// The largest that a [Config] may ask for.
const (
	MaxMemory    = 16
	MaxStageName = 100 // bytes
)

// A Stage is a way of trying: what the next attempts are told as long as the loop is in it.
type Stage struct {
	// Name is what decisions and the stored state call the stage: not empty, no control character, each once.
	Name string
	// After is how often in a row the same set is seen in this stage until it is left, for the next one or for giving up. Zero means [DefaultAfter].
	After int
	// Instructions is what [Decision.Text] adds in this stage. Empty adds nothing.
	Instructions string
}

// A Config says how long a loop may end with the same and what is tried then. It is copied; changing it later changes nothing.
type Config struct {
	// Stages are gone through in order. None means [DefaultStages].
	Stages []Stage
	// Memory is how many iterations back a set is looked for: one that is found there counts as the same. Zero means 1, the iteration before; more
	// than that, at most [MaxMemory], also finds a loop that goes back and forth between a few sets.
	Memory int
}

// DefaultStages returns the stages of a [Config] that has none: retry, change approach, ask for help. The slice is the caller's.
func DefaultStages() []Stage {
	return []Stage{
		{Name: "retry", Instructions: "Find out what each of them means before you try again."},
		{Name: "change approach", Instructions: "What was tried does not work. Do not repeat it; choose another approach."},
		{Name: "ask for help", Instructions: "Do not try on your own any more. Say what was tried and what is missing, and ask for help."},
	}
}

// complete checks the config and returns a copy with the defaults filled in.
func (c Config) complete() (Config, error) {
	if c.Memory < 0 || c.Memory > MaxMemory {
		return Config{}, fmt.Errorf("%w config: Memory is %d; use 0 for the iteration before, or up to %d", watchdog.ErrInvalid, c.Memory, MaxMemory)
	}
	c.Memory = max(c.Memory, 1)
	if c.Stages = slices.Clone(c.Stages); len(c.Stages) == 0 {
		c.Stages = DefaultStages()
	}
	for i := range c.Stages {
		if err := c.completeStage(i); err != nil {
			return Config{}, fmt.Errorf("%w config: stage %d of %d: %w", watchdog.ErrInvalid, i+1, len(c.Stages), err)
		}
	}
	return c, nil
}

func (c Config) completeStage(i int) error {
	stage := &c.Stages[i]
	if flaw := nameFlaw(stage.Name); flaw != "" {
		return fmt.Errorf("its name %s", flaw)
	}
	if c.index(stage.Name) < i {
		return fmt.Errorf("its name %q is that of an earlier stage; give each its own", stage.Name)
	}
	if stage.After < 0 {
		return fmt.Errorf("%q has an After of %d; use a positive number, or 0 for %d", stage.Name, stage.After, DefaultAfter)
	}
	if stage.After == 0 {
		stage.After = DefaultAfter
	}
	return nil
}

// index returns where the stage of that name is, or -1.
func (c Config) index(name string) int {
	return slices.IndexFunc(c.Stages, func(s Stage) bool { return s.Name == name })
}

func nameFlaw(name string) string {
	switch {
	case name == "":
		return "is empty; every stage needs one"
	case len(name) > MaxStageName:
		return fmt.Sprintf("has %d bytes; use at most %d", len(name), MaxStageName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Sprintf("is %q; use text without control characters", name)
	}
	return ""
}
