package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

const (
	upperDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	letters     = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// A canary is an invented credential, and a line of output that shows it. The code puts credentials together so that
// no scanner finds one in this file.
type canary struct {
	secret string
	line   string
	rule   string // the name of what finds it
}

func random(r *rand.Rand, alphabet string, n int) string {
	var text strings.Builder
	for range n {
		text.WriteByte(alphabet[r.IntN(len(alphabet))])
	}
	return text.String()
}

// scattered has no two letters in a row. They could make a word, and gitleaks takes a text with a word for harmless.
func scattered(r *rand.Rand) string {
	var text strings.Builder
	for range 20 {
		text.WriteString(random(r, "bcdfghjklmnpqrstvwxz", 1) + random(r, "0123456789", 1))
	}
	return text.String()
}

// canaries makes one of each kind. Each seed gives other ones.
func canaries(seed uint64) map[string]canary {
	r := rand.New(rand.NewPCG(seed, 7))
	aws := "AK" + "IA" + random(r, upperDigits, 16)
	github := "gh" + "p_" + random(r, letters, 36)
	slack := strings.Join([]string{
		"xo" + "xb", random(r, "123456789", 12), random(r, "123456789", 12), random(r, letters, 24),
	}, "-")
	generic := scattered(r)
	token := jwt(r)
	key := privateKey(r)
	hidden := "gl" + "pat-" + random(r, letters, 20)
	encoded := base64.StdEncoding.EncodeToString([]byte("token: " + hidden + "\n"))
	inHex := hex.EncodeToString([]byte(hidden))
	return map[string]canary{
		"an AWS key":          {aws, "An error occurred with access key " + aws + " in eu-central-1", "aws-access-token"},
		"a GitHub token":      {github, "fatal: unable to access 'https://x:" + github + "@github.com/a/b/'", "github-pat"},
		"a Slack token":       {slack, "slack: invalid_auth for " + slack, "slack-bot-token"},
		"a generic key":       {generic, "api_key=" + generic, "generic-api-key"},
		"a JSON web token":    {token, "Authorization: Bearer " + token, "jwt"},
		"a private key":       {key, begin + "\n" + key + "\n" + end, "private-key"},
		"a token in base64":   {encoded, "data: " + encoded, "gitlab-pat"},
		"a token in hex":      {inHex, "dump " + inHex + " end", "gitlab-pat"},
		"a wrapped token":     wrapped(r),
		"a token in a query":  {hidden[5:], "GET /?t=glp%61t" + hidden[5:] + "&x=1", "gitlab-pat"},
		"a Kubernetes secret": kubernetes(r),
		"a header of curl":    curl(r),
		"an allowed token":    {hidden, "remote: " + hidden + " gitleaks:allow", "gitlab-pat"},
	}
}

const (
	begin = "-----BEGIN RSA PRI" + "VATE KEY-----"
	end   = "-----END RSA PRI" + "VATE KEY-----"
)

func privateKey(r *rand.Rand) string {
	lines := make([]string, 12)
	for i := range lines {
		lines[i] = random(r, letters, 64)
	}
	return strings.Join(lines, "\n")
}

func jwt(r *rand.Rand) string {
	encode := base64.RawURLEncoding.EncodeToString
	header, payload := `{"alg":"HS256","typ":"JWT"}`, `{"sub":"`+random(r, letters, 12)+`"}`
	return encode([]byte(header)) + "." + encode([]byte(payload)) + "." + random(r, letters, 43)
}

// wrapped is a JSON web token in base64, as the command base64 prints it. Only a pattern that matches both lines can
// find the second one.
func wrapped(r *rand.Rand) canary {
	encoded := base64.StdEncoding.EncodeToString([]byte(jwt(r)))
	return canary{encoded[76:], encoded[:76] + "\n" + encoded[76:], "jwt-base64"}
}

func kubernetes(r *rand.Rand) canary {
	secret := base64.StdEncoding.EncodeToString([]byte(random(r, letters, 24)))
	return canary{secret, "kind: Secret\nmetadata:\n  name: db\ndata:\n  password: " + secret, "kubernetes-secret-yaml"}
}

func curl(r *rand.Rand) canary {
	secret := random(r, letters, 24)
	return canary{secret, "+ curl -H 'Authorization: Token " + secret + "' https://api.example.com", "curl-auth-header"}
}
