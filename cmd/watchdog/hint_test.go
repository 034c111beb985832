package main_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	watchdog "github.com/seed62658d38/watchdog/cmd/watchdog"
)

func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for store, want := range map[string]string{
		"sqlite:runs.db":                                  "sqlite:runs.db",
		"postgres://host/db":                              "postgres://host/db",
		"postgres://me@host:5432/db?sslmode=require":      "postgres://me@host:5432/db?sslmode=require",
		"postgres://me:canary@host/db":                    "postgres://me@host/db",
		"postgresql:///db?user=me&password=canary&host=a": "postgresql:///db?host=a&user=me",
		"postgres://host/db?sslPassword=canary":           "postgres://host/db",
		"postgres://me:can ary%@host/db":                  "...",
		"postgres:host=a password=canary":                 "...",
	} {
		assert.Equal(t, want, watchdog.WithoutPassword(store), store)
	}
}

func TestQuoted(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"nightly-2.1/a": "nightly-2.1/a", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "a;b": "'a;b'",
	} {
		assert.Equal(t, want, watchdog.Quoted(word), word)
	}
}
