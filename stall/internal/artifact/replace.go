package artifact

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
)

// replace writes a file anew, whole or not at all: beside its name first, and durable before it takes the name. The rename takes the place of a link that was put
// there since it was looked at, and does not follow it.
func replace(folder *os.Root, name string, text []byte) error {
	if err := checkPlace(folder, name); err != nil {
		return err
	}
	defer share(folder)()
	temp := tempPrefix + rand.Text()
	err := create(folder, temp, text)
	if err == nil {
		err = folder.Rename(temp, name)
	}
	if err != nil {
		_ = folder.Remove(temp) // on a full disk it would be in the way; the next Open tries again
		return err
	}
	return syncFolder(folder)
}

func create(folder *os.Root, name string, text []byte) error {
	f, err := folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// document is a value as JSON for people, with a newline at the end.
func document(v any) ([]byte, error) { return encode(v, "  ") }

// line is a value as JSON on one line, with its newline.
func line(v any) ([]byte, error) { return encode(v, "") }

func encode(v any, indent string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(v)
	return text.Bytes(), err
}

// list is a list that JSON shows as one where it is empty.
func list[T any](values []T) []T {
	if values == nil {
		return []T{}
	}
	return values
}
