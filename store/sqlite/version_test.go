package sqlite_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/seed62658d38/watchdog/store/sqlite"
)

func TestAddVersion(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ appended, stored, read string }{
		{`{}`, `{"event_version":1}`, `{}`},
		{" { }\n", `{"event_version":1}`, `{}`},
		{`{"a":1}`, `{"a":1,"event_version":1}`, `{"a":1}`},
		{`{"a":1 }`, `{"a":1 ,"event_version":1}`, `{"a":1 }`},
		{`{"event_version":1}`, `{"event_version":1 }`, `{"event_version":1 }`},
		{`{"a":1,"event_version":1}`, `{"a":1,"event_version":1 }`, `{"a":1,"event_version":1 }`},
		{`{"a":1, "event_version":1}`, `{"a":1, "event_version":1}`, `{"a":1, "event_version":1}`},
		{`{"event_version":2,"a":1}`, `{"event_version":2,"a":1}`, `{"event_version":2,"a":1}`},
		{`{"a":{"event_version":1}}`, `{"a":{"event_version":1},"event_version":1}`, `{"a":{"event_version":1}}`},
		{
			`{"a":[{"b":0,"event_version":1}]}`,
			`{"a":[{"b":0,"event_version":1}],"event_version":1}`,
			`{"a":[{"b":0,"event_version":1}]}`,
		},
		{`{"event_versio\u006e":3}`, `{"event_versio\u006e":3}`, `{"event_versio\u006e":3}`},
		{`{"a":"event_version"}`, `{"a":"event_version","event_version":1}`, `{"a":"event_version"}`},
		{`{"Event_Version":3}`, `{"Event_Version":3,"event_version":1}`, `{"Event_Version":3}`},
		{`{"a":"\\"}`, `{"a":"\\","event_version":1}`, `{"a":"\\"}`},
	} {
		stored := sqlite.AddVersion([]byte(test.appended))
		if stored != test.stored {
			t.Errorf("%s is stored as %s, want %s", test.appended, stored, test.stored)
		}
		if read := string(sqlite.StripVersion(stored)); read != test.read {
			t.Errorf("%s is read as %s, want %s", test.appended, read, test.read)
		}
	}
}

// FuzzAddVersion checks that every payload is stored as JSON with an event_version, and read as appended.
func FuzzAddVersion(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1}`, `{"event_version":1}`, `{"a":1,"event_version":1}`,
		` { "a" : [ {"event_version":1} ] } `, `{"event_versio\u006e":1}`, `{"":",\"event_version\":1}"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		e := numbered(1)
		if e.Payload = payload; e.Validate() != nil {
			return
		}
		stored := sqlite.AddVersion(payload)
		if _, exists := decode(t, []byte(stored))["event_version"]; !exists {
			t.Fatalf("%q is stored without an event_version: %q", payload, stored)
		}
		if read := sqlite.StripVersion(stored); !reflect.DeepEqual(decode(t, read), decode(t, payload)) {
			t.Fatalf("%q is stored as %q and read as %q", payload, stored, read)
		}
	})
}

// FuzzStripVersion checks that stripVersion removes only the added key from a foreign payload, and leaves JSON.
func FuzzStripVersion(f *testing.F) {
	f.Add(`{"a":1,"event_version":1}`)
	f.Add(`{"a":"x,\"event_version\":1}`)
	f.Add(`{"event_version":1}`)
	f.Fuzz(func(t *testing.T, stored string) {
		if !json.Valid([]byte(stored)) || stored[0] != '{' {
			return
		}
		read := string(sqlite.StripVersion(stored))
		marked := stored == `{"event_version":1}` || read[:len(read)-1]+`,"event_version":1}` == stored
		if !json.Valid([]byte(read)) || read != stored && !marked {
			t.Fatalf("%q is read as %q", stored, read)
		}
	})
}

func decode(t *testing.T, payload []byte) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal(payload, &object); err != nil {
		t.Skip("a number that Go's float cannot hold")
	}
	return object
}
