import {look, loop, prompt, streamed, system} from './loop.mjs'
import {GoogleGenAI} from '@google/genai'

const client = new GoogleGenAI({
  apiKey: process.env.GEMINI_API_KEY, httpOptions: {retryOptions: {attempts: 3}}, // it tries nothing again otherwise
})
const contents = [{role: 'user', parts: [{text: prompt}]}]
await loop(async () => {
  const params = {
    model: 'gemini-2.5-flash', contents, config: {
      systemInstruction: system, thinkingConfig: {includeThoughts: true},
      tools: [{functionDeclarations: [
        {name: look.name, description: look.description, parametersJsonSchema: look.schema},
      ]}],
    },
  }
  const parts = []
  if (streamed) {
    for await (const chunk of await client.models.generateContentStream(params)) {
      parts.push(...chunk.candidates?.[0]?.content?.parts ?? [])
    }
  } else {
    parts.push(...(await client.models.generateContent(params)).candidates[0].content.parts)
  }
  contents.push({role: 'model', parts})
  const results = parts.filter(p => p.functionCall).map(({functionCall: {name, args}}) => (
    {functionResponse: {name, response: {output: look.run(args)}}}))
  if (!results.length) return parts.filter(p => p.text && !p.thought).map(p => p.text).join('')
  contents.push({role: 'user', parts: results})
})
