package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/examples/loop/internal/model"
)

// replyOf returns the model's reply to an agent that waits for a minute.
func replyOf(t *testing.T, m *model.Model, r model.Request) string {
	t.Helper()
	body, err := json.Marshal(r)
	require.NoError(t, err)
	reply := httptest.NewRecorder()
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	defer leave()
	m.ServeHTTP(reply, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(body)))
	return reply.Body.String()
}

func TestModel(t *testing.T) {
	first, faulty := model.Request{Turn: 1}, model.Request{Turn: 2}
	for _, c := range []struct {
		name                string
		character           model.Character
		wrong, again, other string // the last event of the faulty turn: asked once, again, with another approach
	}{
		{"healthy", model.Character{}, model.Ask, model.Ask, model.Ask},
		{"mute until asked again", model.Character{Fault: model.Mute, Recovery: model.OnRetry}, "", model.Ask, model.Ask},
		{"silent in the middle for good", model.Character{Fault: model.Stall}, model.Token, model.Token, model.Token},
		{
			"alive without text until the approach changes",
			model.Character{Fault: model.Heartbeat, Recovery: model.OnNewApproach}, "", "", model.Ask,
		},
		{"slow", model.Character{Fault: model.Trickle}, model.Ask, model.Ask, model.Ask},
		{"with many edits", model.Character{Fault: model.Batch}, model.Tools, model.Tools, model.Tools},
		{"with sub-agents", model.Character{Fault: model.Delegate}, model.SubAgents, model.SubAgents, model.SubAgents},
		{"repeating itself", model.Character{Fault: model.Repeat}, model.Again, model.Again, model.Again},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := model.New(c.character)
				assert.Equal(t, model.Tool, last(replyOf(t, m, first)), "the first turn has no fault")
				assert.Equal(t, c.wrong, last(replyOf(t, m, faulty)))
				assert.Equal(t, c.again, last(replyOf(t, m, faulty)))
				assert.Equal(t, c.other, last(replyOf(t, m, model.Request{Turn: 2, Approach: 1})))
			})
		})
	}
	t.Run("after its end the conversation sends Final", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			assert.Equal(t, model.Final, last(replyOf(t, model.New(model.Character{}), model.Request{Turn: 9})))
		})
	})
	t.Run("in a circle it asks for the same three tools in turn, without end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := model.New(model.Character{Fault: model.Cycle})
			var round [3]string
			for turn := 1; turn < 20; turn++ {
				reply := replyOf(t, m, model.Request{Turn: turn, Approach: turn % 2})
				assert.Equal(t, model.Tool, last(reply))
				switch {
				case turn == 1:
					assert.Equal(t, replyOf(t, model.New(model.Character{}), first), reply, "the first turn has no fault")
				case turn < 5:
					assert.NotContains(t, round, reply)
					round[turn%3] = reply
				default:
					assert.Equal(t, round[turn%3], reply)
				}
			}
		})
	})
	t.Run("an invalid request is refused", func(t *testing.T) {
		reply := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("?"))
		model.New(model.Character{}).ServeHTTP(reply, r)
		assert.Equal(t, http.StatusBadRequest, reply.Code)
	})
}

// last returns the kind of the last event.
func last(text string) string {
	at := strings.LastIndex(text, "event: ")
	if at < 0 {
		return ""
	}
	kind, _, _ := strings.Cut(text[at+len("event: "):], "\n")
	return kind
}
