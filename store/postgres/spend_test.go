package postgres_test

import "github.com/seed62658d38/watchdog"

// sliceOf returns a slice that needs so many requests of so many.
func sliceOf(id string, least, limit int64) watchdog.Slice {
	return watchdog.Slice{
		ID: id, Scope: "tenant-1", Least: watchdog.Totals{Requests: least}, Limit: watchdog.Totals{Requests: limit},
	}
}
