package watchdog

import (
	"fmt"
	"strings"
)

// The classes: what an event of the host's own means to the watchdog.
const (
	// ClassMaterial events are progress.
	ClassMaterial = "material"
	// ClassActivity events are activity.
	ClassActivity = "activity"
	// ClassIgnored events are no signal.
	ClassIgnored = "ignored"
)

// Kinds classify the host's own kinds of event, once, so that its event stream can be fed to [Watchdog.Observe] and no
// method need be called by hand. The zero value ignores every kind.
type Kinds struct {
	// Material, Activity and Ignored are the kinds of each class, by their exact names.
	Material, Activity, Ignored []string
	// Unknown is the class of every other kind. Empty means [ClassIgnored].
	Unknown string
}

// classes are the kinds as they are looked up, nil where all are ignored.
type classes struct {
	of      map[string]string
	unknown string
}

func (k Kinds) classes() (*classes, error) {
	if len(k.Material)+len(k.Activity)+len(k.Ignored) == 0 && k.Unknown == "" {
		return nil, nil
	}
	c := &classes{map[string]string{}, k.Unknown}
	for _, set := range []struct {
		class string
		kinds []string
	}{{ClassMaterial, k.Material}, {ClassActivity, k.Activity}, {ClassIgnored, k.Ignored}} {
		for _, kind := range set.kinds {
			if err := c.add(kind, set.class); err != nil {
				return nil, err
			}
		}
	}
	switch k.Unknown {
	case "", ClassMaterial, ClassActivity, ClassIgnored:
	default:
		return nil, fmt.Errorf("%w event kinds: Unknown is %q; use %s, %s or %s", ErrInvalid, k.Unknown, ClassMaterial,
			ClassActivity, ClassIgnored)
	}
	return c, nil
}

func (c *classes) add(kind string, class string) error {
	switch before, twice := c.of[kind]; {
	case strings.TrimSpace(kind) == "":
		return fmt.Errorf("%w event kinds: an empty kind is %s", ErrInvalid, class)
	case strings.HasPrefix(kind, eventPrefix):
		return fmt.Errorf("%w event kinds: %s is the watchdog's own and never a signal", ErrInvalid, kind)
	case twice:
		return fmt.Errorf("%w event kinds: %s is %s and %s", ErrInvalid, kind, before, class)
	}
	c.of[kind] = class
	return nil
}
