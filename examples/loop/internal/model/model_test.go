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

// said is what a model replies to a request from an agent that stays for a minute.
func said(t *testing.T, m *model.Model, r model.Request) string {
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
	first, ill := model.Request{Turn: 1}, model.Request{Turn: 2}
	for _, c := range []struct {
		name                string
		character           model.Character
		wrong, again, other string // what the ill turn ends with, asked once, again, and with another approach
	}{
		{"healthy", model.Character{}, model.Ask, model.Ask, model.Ask},
		{"mute until asked again", model.Character{Fault: model.Mute, Cure: model.Retried}, "", model.Ask, model.Ask},
		{"silent in the middle for good", model.Character{Fault: model.Stall}, model.Token, model.Token, model.Token},
		{"alive without a word until approached", model.Character{Fault: model.Heartbeat, Cure: model.Approached}, "", "", model.Ask},
		{"slow", model.Character{Fault: model.Trickle}, model.Ask, model.Ask, model.Ask},
		{"repeating itself", model.Character{Fault: model.Repeat}, model.Again, model.Again, model.Again},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := model.New(c.character)
				assert.Equal(t, model.Tool, last(said(t, m, first)), "the first turn is never ill")
				assert.Equal(t, c.wrong, last(said(t, m, ill)))
				assert.Equal(t, c.again, last(said(t, m, ill)))
				assert.Equal(t, c.other, last(said(t, m, model.Request{Turn: 2, Approach: 1})))
			})
		})
	}
	t.Run("past its end the conversation is over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			assert.Equal(t, model.Final, last(said(t, model.New(model.Character{}), model.Request{Turn: 9})))
		})
	})
	t.Run("what is no request is refused", func(t *testing.T) {
		reply := httptest.NewRecorder()
		model.New(model.Character{}).ServeHTTP(reply, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("?")))
		assert.Equal(t, http.StatusBadRequest, reply.Code)
	})
}

// last is the kind of the last event.
func last(text string) string {
	at := strings.LastIndex(text, "event: ")
	if at < 0 {
		return ""
	}
	kind, _, _ := strings.Cut(text[at+len("event: "):], "\n")
	return kind
}
