package adapter

import (
	"context"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

// A Said is what stands in the role of the user for an agent.
type Said struct {
	// Session names the conversation, for SDKs in which a tool may have one of its own with an agent. In a run the person
	// speaks in the first.
	Session string
	// Invocation names the turn of the user, for SDKs in which an agent is sent other texts within it. The first counts.
	Invocation string
	// Words are the text.
	Words func() string
}

// Said tells the run of ctx that a person said something, which has what its agents did before count no more. The same
// words as lately, such as those of a program that has an agent continue, are no person's, and neither are those of a
// directive; nor are the first words of a run that this process knows of, with which it may have been continued after a
// crash. Nothing of the words is kept but digests.
func (g *Guard) Said(ctx context.Context, s Said) {
	wd := watchdog.FromContext(ctx)
	if wd != nil && ctx.Value(toolKey{}) == nil && g.isNew(wd, s) {
		wd.Step(loop.Step{Class: loop.Person})
	}
}

// isNew reports whether a person says something that was not said lately.
func (g *Guard) isNew(wd *watchdog.Watchdog, s Said) bool {
	g.mu.Lock()
	all := g.turnsOf(wd)
	if all.session == "" {
		all.session = s.Session
	}
	heard := all.session != s.Session || s.Invocation != "" && !g.hears(wd.ID()+"\x00"+s.Invocation+"\x00")
	g.mu.Unlock()
	if heard {
		return false
	}
	words := s.Words()
	if words == "" || IsDirective(words) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.hears(wd.ID())
	return g.hears(wd.ID()+"\x00"+words) && !first
}

// hears reports whether a text is not among the last ones, to which it is added. The caller holds mu.
func (g *Guard) hears(text string) bool {
	digest := maphash.String(g.seed, text)
	if slices.Contains(g.heard[:], digest) {
		return false
	}
	g.heard[g.next%len(g.heard)] = digest
	g.next++
	return true
}

// IsDirective reports whether a text is one of [Text].
func IsDirective(text string) bool {
	return slices.ContainsFunc([]string{again, repeats, stuck, little}, func(begin string) bool {
		return strings.HasPrefix(text, begin)
	})
}
