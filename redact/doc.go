// Package redact removes what looks like a credential from a command's output before it is kept. It is a module of its own, so that its patterns
// never enter the go.mod of a host that keeps no output.
//
// # Use
//
//	redactor, err := redact.New()
//	...
//	redactor, err = redactor.Also(os.Getenv("DEPLOY_TOKEN"))
//	...
//	config.Tail = &stall.Tail{Bytes: 64 << 10, Redact: redactor.Bytes}
//
// A credential becomes [REDACTED:aws-access-token], with the name of the pattern that found it; what was named by [Redactor.Also] becomes
// [REDACTED:named].
//
// # The patterns
//
// They are those of gitleaks (github.com/zricethezav/gitleaks/v8), which knows some 220 kinds of credentials, as it ships them: keys and tokens of
// services, private keys, JSON web tokens, and whatever random text follows a word such as api_key, token or password. They also look into what is
// encoded as base64, hex or percent signs. A credential that was found once is removed wherever else it stands in the same bytes. Comments that tell gitleaks to look
// away are not obeyed, and patterns that it keeps for files of one name are applied to all output.
//
// To these comes what a tail needs: of a private key whose beginning or end was cut off the rest is removed too, up to the end or from the beginning that is there.
//
// # What it costs
//
// New compiles the patterns once, some tens of milliseconds and 14 MiB; the redactors that [Redactor.Also] makes of it share them. Redacting 64 KiB
// takes some tens of milliseconds, and some hundreds where they hold little but credentials: it is for the end of an output, not for all of it,
// and not for the way of anything urgent. The benchmarks of the package measure both.
//
// # What it does not do
//
// It is a net, not a proof. It does not see a password that stands alone, one of few different characters or with letters that make a word, examples that
// gitleaks knows to be harmless (AKIAIOSFODNN7EXAMPLE), the rest of a token whose beginning was cut off, a credential that is wrapped over two lines, compressed, encrypted or in UTF-16,
// or kinds that nobody wrote a pattern for. What must not be kept in any case is named by [Redactor.Also], which does not see it encoded either;
// and what is not kept at all needs no redaction.
//
// It writes nothing and logs nothing. The logger of gitleaks (its package logging) is left as it is: a host that lowers its level to debug or trace
// finds there what gitleaks finds.
package redact
