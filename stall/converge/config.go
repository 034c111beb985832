package converge

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog"
)

// DefaultAfter is the After of a [Stage] that sets none.
const DefaultAfter = 2

// The largest values in a [Config].
const (
	MaxMemory    = 16
	MaxStageName = 100 // bytes
)

// A Stage is a way of trying. Its instructions go to every attempt while the loop is in the stage.
type Stage struct {
	// Name is the stage's name in decisions and in the stored state. It must not be empty, must not have control
	// characters, and must be unique.
	Name string
	// After is how many iterations in a row must have the same set before the loop leaves this stage, for the next one or
	// by giving up. Zero means [DefaultAfter].
	After int
	// Instructions is what [Decision.Text] adds in this stage. Empty adds nothing.
	Instructions string
}

// A Config says when a loop is stuck and what it tries then. [New] and [Restore] copy it.
type Config struct {
	// Stages are the stages, in order. None means [DefaultStages].
	Stages []Stage
	// Memory is how many iterations a set is compared with. If one of them has the same set, the set counts as the same.
	// Zero means 1, the iteration before. A larger number, at most [MaxMemory], also finds a loop that goes back and forth
	// between a few sets.
	Memory int
}

// DefaultStages returns the stages of a [Config] that sets none: retry, change approach, ask for help. The caller may
// change the slice.
func DefaultStages() []Stage {
	return []Stage{
		{Name: "retry", Instructions: "Find out what each of them means before you try again."},
		{Name: "change approach", Instructions: "What was tried does not work. Do not repeat it; choose another approach."},
		{
			Name: "ask for help",
			Instructions: "Do not try on your own any more. " +
				"Say what was tried and what is missing, and ask for help.",
		},
	}
}

// complete checks the config and returns a copy with the defaults set.
func (c Config) complete() (Config, error) {
	if c.Memory < 0 || c.Memory > MaxMemory {
		return Config{}, fmt.Errorf("%w config: Memory is %d; use 0 for the iteration before, or up to %d",
			watchdog.ErrInvalid, c.Memory, MaxMemory)
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
