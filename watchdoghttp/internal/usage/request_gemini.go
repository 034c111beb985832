package usage

// geminiBody is the body of a request to Gemini. Its maximum of output has been seen to hold thoughts too, though the
// documentation has said both, so that a budget of thoughts that the request names is counted on top.
var geminiBody = fields(text, "safetySettings", "toolConfig", "labels", "serviceTier", "modelArmorConfig").with(object{
	"model":             text, // the path's counts
	"contents":          geminiContents,
	"systemInstruction": geminiContents,
	"tools":             each(geminiTool),
	"cachedContent":     refers(Reference, "cachedContent"),
	"generationConfig":  inside(func() object { return geminiConfig }, camelCase),
})

var geminiConfig = fields(text,
	"temperature", "topP", "topK", "stopSequences", "responseLogprobs", "logprobs", "presencePenalty", "frequencyPenalty",
	"seed", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities", "mediaResolution",
	"speechConfig", "audioTimestamp", "imageConfig", "enableEnhancedCivicAnswers", "enableAffectiveDialog",
).with(object{
	"maxOutputTokens": maxOutput("maxOutputTokens"),
	"candidateCount":  candidates("candidateCount"),
	"thinkingConfig":  inside(func() object { return geminiThinking }, camelCase),
})

var geminiThinking = object{
	"includeThoughts": text,
	"thinkingLevel":   text,
	"thinkingBudget": func(r *request, v value) {
		if n, ok := v.number(); ok { // -1 leaves it to the model
			r.call.extraOutput = n
		}
	},
}

// geminiContents is a field of one content, or of many.
func geminiContents(r *request, v value) {
	if v[0] == '{' {
		geminiContent(r, v)
		return
	}
	each(geminiContent)(r, v)
}

func geminiContent(r *request, v value) {
	r.part()
	r.object(object{"role": text, "parts": each(geminiPart)}, v, camelCase)
}

func geminiPart(r *request, v value) {
	r.object(fields(text, "text", "thought", "functionCall", "executableCode", "codeExecutionResult", "videoMetadata",
		"mediaResolution", "partMetadata").with(object{
		"inlineData":       refers(Media, "inlineData"),
		"fileData":         refers(Reference, "fileData"),
		"thoughtSignature": refers(Opaque, "thoughtSignature"),
		"toolCall":         refers(ServerTool, "toolCall"),
		"toolResponse":     refers(ServerTool, "toolResponse"),
		"functionResponse": inside(func() object {
			return fields(text, "id", "name", "response", "willContinue", "scheduling").
				with(object{"parts": refers(Media, "functionResponse")})
		}, camelCase),
	}), v, camelCase)
}

// geminiTool takes a tool. Only declarations of functions are all in the body.
func geminiTool(r *request, v value) {
	if v[0] != '{' {
		r.unknown("tools")
		return
	}
	v.members(func(key string, member value) {
		switch key = camelCase(key); {
		case key == "functionDeclarations":
			each(func(r *request, _ value) { r.part() })(r, member)
		case string(member) != "null":
			r.serverTool(key, -1)
		}
	})
}
