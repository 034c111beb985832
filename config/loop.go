package config

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/seed62658d38/watchdog/loop"
)

// fuse is the kind of the count of a fuse, whose default is at most what it counts among.
type fuse struct{ count[int] }

func (f fuse) show(c *Config) string {
	if c.Loop.Fuse == 0 {
		return strconv.Itoa(min(f.fallback, cmp.Or(c.Loop.FuseOf, loop.DefaultFuseOf)))
	}
	return f.count.show(c)
}

// tooManyFor returns why a count can never be reached: what it counts among, at the path, is less.
func (c *Config) tooManyFor(count, among int, path string) string {
	if count <= among {
		return ""
	}
	outer, _ := keyAt(path)
	return fmt.Sprintf("is more than it is counted among: %s is %s by %s", path, outer.kind.show(c), c.sources[path])
}

// tooManyPairs returns why so many equal pairs are never found.
func (c *Config) tooManyPairs() string {
	return c.tooManyFor(c.Loop.Pairs, cmp.Or(c.Loop.Window, loop.DefaultWindow), windowPath)
}

// tooManyFused returns why a fuse never blows.
func (c *Config) tooManyFused() string {
	return c.tooManyFor(c.Loop.Fuse, cmp.Or(c.Loop.FuseOf, loop.DefaultFuseOf), fuseOfPath)
}

// tooFewTurns returns why a window is too short for the default number of pairs.
func (c *Config) tooFewTurns() string {
	if c.Loop.Pairs != 0 || c.Loop.Window >= loop.DefaultPairs {
		return ""
	}
	return fmt.Sprintf("is less than the default of %s, %d, which would never be found; write that too, or 0 for never",
		pairsPath, loop.DefaultPairs)
}
