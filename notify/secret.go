package notify

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// secretPrefix begins a secret in its usual form.
const secretPrefix = "whsec_"

// The lengths of a secret that the specification allows.
const leastSecret, mostSecret = 24, 64

// maxSecretFile limits what is read of a file of secrets.
const maxSecretFile = 64 << 10

// readKeys returns the keys of the config. No error has a part of a secret.
func (c Config) readKeys() ([][]byte, error) {
	secrets := c.Secrets
	if c.SecretFile != "" {
		more, err := readSecrets(c.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("read SecretFile: %w", err)
		}
		secrets = append(slices.Clip(secrets), more...)
	}
	if len(secrets) == 0 {
		return nil, errors.New("there is no secret, and what is not signed can be sent by anybody; " + makeSecret)
	}
	return keysOf(secrets)
}

const makeSecret = `make one with: echo "whsec_$(openssl rand -base64 32)"`

func keysOf(secrets []string) (keys [][]byte, err error) {
	for i, secret := range secrets {
		key, err := keyOf(secret)
		if err != nil {
			return nil, fmt.Errorf("secret %d of %d %w", i+1, len(secrets), err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// keyOf decodes a secret.
func keyOf(secret string) ([]byte, error) {
	text := strings.TrimPrefix(strings.TrimSpace(secret), secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		key, err = base64.RawStdEncoding.DecodeString(text)
	}
	switch {
	case err != nil:
		return nil, errors.New("is no base64; " + makeSecret)
	case len(key) < leastSecret || len(key) > mostSecret:
		return nil, fmt.Errorf("has %d bytes, and %d to %d are allowed; %s", len(key), leastSecret, mostSecret, makeSecret)
	}
	return key, nil
}

// readSecrets reads the lines of a file that are not blank.
func readSecrets(path string) (secrets []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := io.ReadAll(io.LimitReader(file, maxSecretFile))
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			secrets = append(secrets, line)
		}
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%s has no line with a secret; %s", path, makeSecret)
	}
	return secrets, nil
}
