// The official code interpreter SDK, unmodified: languages, contexts, callbacks, results, charts, errors,
// interrupts.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { Sandbox } from '@e2b/code-interpreter'
import { create, finish, native, slow, test, until } from './harness.mjs'

const sandbox = await create({ envs: { FROM_SANDBOX: 'yes' } }, Sandbox)
const requestTimeoutMs = 60_000 * slow
const code = (text, options = {}) => sandbox.runCode(text, { requestTimeoutMs, timeoutMs: 60_000 * slow, ...options })

test('an expression, state, logs', async () => {
  const first = await code('x = 41\nprint("out")\nimport sys; print("err", file=sys.stderr)\nx + 1')
  assert.equal(first.text, '42')
  assert.deepEqual(first.logs, { stdout: ['out\n'], stderr: ['err\n'] })
  assert.equal(first.error, undefined)
  assert.equal((await code('x')).text, '41')
  assert.equal((await code('x')).executionCount, first.executionCount + 2)
})

test('callbacks as it happens', async () => {
  const seen = []
  const note = (kind) => (m) => { seen.push([kind, m.line ?? m.text ?? m.name, Date.now()]) }
  await code('import time\nfor i in range(3):\n  print(i); time.sleep(0.5)\n"last"', {
    onStdout: note('stdout'), onStderr: note('stderr'), onResult: note('result'), onError: note('error') })
  assert.deepEqual(seen.map(([kind, text]) => [kind, text]),
    [['stdout', '0\n'], ['stdout', '1\n'], ['stdout', '2\n'], ['result', 'last']])
  assert.ok(seen[1][2] - seen[0][2] > 100 && seen[2][2] - seen[1][2] > 100)
})

test('errors', async () => {
  const { error, text } = await code('{}["missing"]')
  assert.equal(error.name, 'KeyError')
  assert.equal(error.value, "'missing'")
  assert.match(error.traceback, /Traceback/)
  assert.equal(text, undefined)
})

test('a picture that is shown or saved', async () => {
  const { results } = await code('from PIL import Image\nImage.new("RGB", (3, 2)).show()\nImage.new("L", (5, 4)).save("/tmp/p.png")')
  const sizes = results.map((r) => [16, 20].map((at) => Buffer.from(r.png, 'base64').readUInt32BE(at)))
  assert.deepEqual(sizes, [[3, 2], [5, 4]])
})

test('a figure is an image and a chart', async () => {
  const { results } = await code('import matplotlib.pyplot as plt\nplt.bar(["a", "b"], [1, 3], label="g")\nplt.ylabel("n (kg)")\nplt.show()')
  const image = results.find((r) => r.png)
  assert.equal(Buffer.from(image.png, 'base64').subarray(1, 4).toString(), 'PNG')
  assert.equal(image.isMainResult, false)
  assert.equal(image.chart.type, 'bar')
  assert.equal(image.chart.y_unit, 'kg')
  assert.deepEqual(image.chart.elements, [
    { label: 'a', group: 'g', value: 1 }, { label: 'b', group: 'g', value: 3 }])
})

test('tables, JSON, HTML', async () => {
  const table = (await code('import pandas as pd; pd.DataFrame({"a": [1, 2], "é": ["x", None]})')).results[0]
  assert.deepEqual(table.data, { a: [1, 2], 'é': ['x', null] })
  assert.match(table.html, /<table/)
  assert.deepEqual((await code('{"k": [1, "漢字😀"]}')).results[0].json, { k: [1, '漢字😀'] })
  const { results } = await code('from IPython.display import display, Markdown\ndisplay(Markdown("*m*"))\n1')
  assert.deepEqual(results.map((r) => [r.markdown, r.isMainResult]), [['*m*', false], [undefined, true]])
})

test('other languages', async () => {
  assert.equal((await code('const n: number = 3; n * 2', { language: 'ts' })).text, '6')
  const js = await code('console.log("hi"); [1, 2].length', { language: 'js' })
  assert.deepEqual([js.text, js.logs.stdout], ['2', ['hi\n']])
  const bash = await code('echo $((6 * 7)); false', { language: 'bash' })
  assert.deepEqual([bash.logs.stdout, bash.error.value], [['42\n'], '1'])
  await assert.rejects(code('1', { language: 'cobol' }), /400/) // the SDK drops the body, which says why
})

const jdk = '/usr/lib/jvm/java-17-openjdk-amd64/jmods/jdk.jshell.jmod'
if (native && existsSync(jdk)) {
  test('Java', async () => {
    assert.equal((await code('int a = 6; a * 7', { language: 'java' })).text, '42')
    assert.equal((await code('System.getProperty("V")', { language: 'java', envs: { V: 'v' } })).text, 'v')
  })
}

test('R', async () => {
  const { logs, results } = await code('cat("hi\\n"); sum(c(1, 2))', { language: 'r' })
  assert.deepEqual(logs.stdout, ['hi\n'])
  assert.match(results[0].text, /3/)
  const [plot] = (await code('plot(1:3)', { language: 'r' })).results
  assert.equal(Buffer.from(plot.png, 'base64').subarray(1, 4).toString(), 'PNG')
  assert.match((await code('stop("broken")', { language: 'r' })).error.value, /broken/)
})

test('contexts', async () => {
  const root = await sandbox.createCodeContext({ cwd: '/root', requestTimeoutMs })
  assert.equal((await code('import os; os.getcwd()', { context: root })).text, '/root')
  await sandbox.removeCodeContext(root)
  const context = await sandbox.createCodeContext({ cwd: '/usr', requestTimeoutMs })
  assert.equal(context.language, 'python')
  assert.equal((await code('import os; y = 1; os.getcwd()', { context })).text, '/usr')
  assert.ok((await code('y')).error)
  assert.ok((await sandbox.listCodeContexts()).some((c) => c.id === context.id && c.cwd === '/usr'))
  await sandbox.restartCodeContext(context, { requestTimeoutMs })
  assert.equal((await code('y', { context })).error.name, 'NameError')
  await sandbox.removeCodeContext(context)
  await assert.rejects(code('1', { context }), /context/)
})

test('variables of a run', async () => {
  const get = 'import os; os.environ.get("OF_RUN")'
  assert.equal((await code(get, { envs: { OF_RUN: "it's" } })).text, "it's")
  assert.equal((await code(get)).text, undefined)
  if (!native) assert.equal((await code('os.environ["FROM_SANDBOX"]')).text, 'yes')
})

test('siblings draw different numbers', async () => {
  const draw = 'import random, numpy, time\n[random.random(), numpy.random.rand(), time.time()]'
  const other = await create({}, Sandbox)
  const drawn = []
  for (const one of [sandbox, other]) {
    const before = Date.now() / 1000
    const { results } = await one.runCode(draw, { requestTimeoutMs, timeoutMs: 60_000 * slow })
    const [,, now] = results[0].json
    assert.ok(before - 1 < now && now < Date.now() / 1000 + 1, `the clock is right: ${before} ${now}`)
    drawn.push(results[0].json)
  }
  assert.notEqual(drawn[0][0], drawn[1][0])
  assert.notEqual(drawn[0][1], drawn[1][1])
  await other.kill()
})

test('a timeout interrupts the cell', async () => {
  const context = await sandbox.createCodeContext({ requestTimeoutMs })
  await assert.rejects(code('import time\ntry:\n  time.sleep(600)\nexcept KeyboardInterrupt:\n  interrupted = 1',
    { context, timeoutMs: 1000 * slow }))
  assert.equal((await code('interrupted', { context })).text, '1')
  await sandbox.removeCodeContext(context)
})

test('a kernel that dies', async () => {
  const context = await sandbox.createCodeContext({ requestTimeoutMs })
  assert.equal((await code('import os; os._exit(1)', { context })).error.name, 'UnexpectedEndOfExecution')
  assert.equal((await code('2', { context })).text, '2')
  await sandbox.removeCodeContext(context)
})

test('the interpreter comes back, however it ends', async () => {
  for (const signal of ['SIGKILL', 'SIGTERM']) {
    await code('before = 1')
    await code(`import os, signal, time\nos.kill(os.getppid(), signal.${signal}); time.sleep(60)`).catch(() => {})
    await until('a new kernel', () => code('before').then((r) => r.error?.name === 'NameError', () => false))
  }
})

test('five megabytes', async () => {
  const { logs } = await code('print("漢" * 5_000_000)')
  assert.equal(logs.stdout.join('').length, 5_000_001)
})

await finish('code')
