package adapter

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/loop"
)

// Messages takes the directives that the run has pending and returns what they say to the model.
func Messages(wd *watchdog.Watchdog) []string {
	messages, _ := take(wd)
	return messages
}

// take is Messages, and says whether one of them asks to wrap up.
func take(wd *watchdog.Watchdog) (messages []string, wrapUp bool) {
	for d := range wd.Pending() {
		wrapUp = wrapUp || d.Kind == watchdog.DirectiveWrapUp
		if text := Text(d); text != "" {
			messages = append(messages, text)
		}
	}
	return messages, wrapUp
}

// MessagesAfter is Messages after a turn. If that asks the run to leave a loop, or ends it in one, it waits for that,
// which comes once its record was tried, because the model should read it before it does the same again.
func MessagesAfter(ctx context.Context, wd *watchdog.Watchdog, turn loop.Advice) []string {
	if turn == loop.Go {
		return Messages(wd)
	}
	messages, _ := messagesSoon(ctx, wd)
	return messages
}

// afterRefusal is what is said after a refusal, and whether that is to wrap up. A run around this one is asked by
// itself, for its own model to read, so that this one's model is told here.
func afterRefusal(ctx context.Context, wd *watchdog.Watchdog, r *watchdog.Refused) (messages []string, wrapUp bool) {
	if r.Run == wd.ID() {
		return messagesSoon(ctx, wd)
	}
	return []string{Text(watchdog.Directive{Kind: watchdog.DirectiveWrapUp, Reason: r.Code()})}, true
}

// messagesSoon is take when the run may just have been asked for something, or ended: it waits for that. There is
// nothing to wait for if another reader has it, or if what was found asks for nothing, such as in a run that is only
// observed.
func messagesSoon(ctx context.Context, wd *watchdog.Watchdog) (messages []string, wrapUp bool) {
	ctx, cancel := context.WithTimeout(ctx, watchdog.DefaultRecordTimeout)
	defer cancel()
	defer wd.Subscribe(func(watchdog.Directive) { cancel() })()
	asked := handle.Of(wd.Context()).Asked()
	if messages, wrapUp = take(wd); len(messages) > 0 || !asked {
		return messages, wrapUp
	}
	select {
	case <-ctx.Done():
	case <-wd.Context().Done():
	}
	return take(wd)
}

// How what is said to a model begins.
const (
	again   = "The last step took too long or was cut off ("
	repeats = "You repeat yourself. "
	stuck   = "You have not got further for a while ("
	little  = "Only little is left of what this run may use ("
)

// Text is what a directive says to the model, empty for one that asks nothing of it.
func Text(d watchdog.Directive) string {
	switch {
	case d.Kind == watchdog.DirectiveRetry:
		return again + string(d.Reason) + "). Do it again, in smaller parts."
	case d.Kind == watchdog.DirectiveUnstuck && d.Reason == watchdog.LoopDetected:
		return repeats + cmp.Or(d.Loop, "Stop that: say what you know, find out why it does not get further, and do "+
			"something else.")
	case d.Kind == watchdog.DirectiveUnstuck:
		return stuck + string(d.Reason) + "). Leave that and try another way."
	case d.Kind == watchdog.DirectiveWrapUp:
		return little + string(d.Reason) + "). Call no more tools: say now what is done, what is not, and how to go on."
	}
	return ""
}

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
