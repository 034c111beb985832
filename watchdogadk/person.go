package watchdogadk

import (
	"context"
	"strings"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/session"

	"github.com/seed62658d38/watchdog/internal/adapter"
)

// agentOf names the agent of a call if others may work beside it: those of parallel agents have branches.
func agentOf(ctx context.Context) string {
	if c, ok := ctx.(interface{ Branch() string }); ok {
		return c.Branch()
	}
	return ""
}

// hear tells the run of work of what the person said to whom the call of a model with the SDK's context answers.
func (g *Guard) hear(work, sdk context.Context) {
	c, ok := sdk.(interface {
		UserContent() *genai.Content
		InvocationID() string
	})
	if !ok {
		return
	}
	g.calls.Said(work, adapter.Said{
		Session: sessionOf(sdk), Invocation: c.InvocationID(), Words: func() string { return typed(c.UserContent()) },
	})
}

// sessionOf returns the ID of a context's session. A context of a callback has the ID, and no session.
func sessionOf(ctx context.Context) string {
	switch c := ctx.(type) {
	case interface{ SessionID() string }:
		return c.SessionID()
	case interface{ Session() session.Session }:
		if s := c.Session(); s != nil {
			return s.ID()
		}
	}
	return ""
}

// typed is what a person has typed or added. An answer of a function is none.
func typed(content *genai.Content) string {
	if content == nil {
		return ""
	}
	var all strings.Builder
	for _, p := range content.Parts {
		if p == nil {
			continue
		}
		all.WriteString(p.Text)
		if p.InlineData != nil {
			all.Write(p.InlineData.Data)
		}
		if p.FileData != nil {
			all.WriteString(p.FileData.FileURI)
		}
	}
	return all.String()
}
