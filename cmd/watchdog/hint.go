package main

import (
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/internal/story"
)

// line is a command line about a run in the store, as a person pastes it into a shell.
func (c *Common) line(command, id string) string {
	return story.Next{Command: c.inStore(story.CommandLine(command, id))}.Line()
}

// inStore has a command line of this program name the store, unless it has that from the environment, too.
func (c *Common) inStore(words []string) []string {
	if len(words) == 0 || os.Getenv("WATCHDOG_STORE") == c.Store {
		return words
	}
	return slices.Insert(slices.Clone(words), 2, "--store", withoutPassword(c.Store))
}

// withoutPassword is the name of a store as it can be shown.
func withoutPassword(store string) string {
	if strings.HasPrefix(store, "sqlite:") {
		return store
	}
	u, err := url.Parse(store)
	if err != nil || u.Opaque != "" {
		return "..."
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	for key := range query {
		if strings.Contains(strings.ToLower(key), "password") {
			query.Del(key)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}
