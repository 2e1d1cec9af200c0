// Templates that the official JavaScript client builds, lists, tags and uses. Natively the builder is a
// double (tests/system/build_double.py), which obeys the start command; in microVMs it is the real one.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox, Template, waitForFile, waitForTimeout } from 'e2b'
import { atEnd, create, finish, native, test, testNatively, until } from './harness.mjs'

const context = fs.mkdtempSync(path.join(os.tmpdir(), 'sdk-templates-'))
atEnd(async () => fs.rmSync(context, { recursive: true }))
fs.mkdirSync(path.join(context, 'src/deep'), { recursive: true })
fs.writeFileSync(path.join(context, 'src/app.txt'), 'application\n')
fs.writeFileSync(path.join(context, 'src/deep/more.txt'), 'more\n')
fs.writeFileSync(path.join(context, 'one.sh'), '#!/bin/sh\necho one\n')

const other = { apiKey: process.env.E2B_API_KEY_OTHER }
const sizes = { cpuCount: 1, memoryMB: 512 }
const template = () => Template({ fileContextPath: context }).fromTemplate('base')

function built() {
  const t = template().copy('src', 'src').copy('one.sh', '/opt/one.sh', { mode: 0o755, user: 'root' })
    .setEnvs({ GREETING: 'hello "you"' }).runCmd('echo "$GREETING" >greeting && id -un')
    .runCmd('id -un >/opt/who', { user: 'root' }).setWorkdir('/home/user/src')
  return native ? t.setStartCmd('log hello', 'true')
    : t.setStartCmd('touch /tmp/started; sleep 100000', waitForFile('/tmp/started'))
}

test('build, use and list', async () => {
  const lines = []
  const info = await Template.build(built(), 'sdk-web', { ...sizes, onBuildLogs: (l) => lines.push(l.message) })
  assert.equal(info.name, 'sdk-web')
  assert.ok(lines.some((l) => native ? l === 'hello' : l === 'user'), lines.join('\n'))
  assert.equal(await Template.exists('sdk-web'), true)
  assert.equal(await Template.exists('sdk-nothing'), false)
  const status = await Template.getBuildStatus(info)
  assert.deepEqual([status.status, status.templateID, status.buildID], ['ready', info.templateId, info.buildId])
  const sb = await create({}, { create: (o) => Sandbox.create('sdk-web', o) })
  assert.equal((await sb.getInfo()).templateId, info.templateId)
  if (native) return
  const all = await sb.commands.run(
    'pwd; cat app.txt deep/more.txt ../greeting /opt/who; /opt/one.sh; stat -c %U:%a app.txt /opt/one.sh; ' +
    'echo $GREETING; pgrep -f "sleep 100000" >/dev/null && echo runs')
  assert.equal(all.stdout, '/home/user/src\napplication\nmore\nhello "you"\nroot\none\nuser:644\nroot:755\nhello "you"\nruns\n')
})

test('a step that fails is the error, and the old build stays', async () => {
  const t = native ? template().setStartCmd('fail no luck', 'true') : template().runCmd('true').runCmd('echo no luck; false')
  await assert.rejects(Template.build(t, 'sdk-web', { ...sizes, onBuildLogs: () => {} }),
    (e) => e.name === 'BuildError' && (native ? /no luck/ : /status 1/).test(e.message))
  const sb = await create({}, { create: (o) => Sandbox.create('sdk-web', o) })
  assert.ok(sb.sandboxId)
})
if (!native) test('a start command that fails is the fault of its line', async () => {
  const lines = []
  const t = template().setStartCmd('echo so far; ./nonexistent/path', waitForTimeout(10_000))
  const e = await Template.build(t, 'sdk-start', { ...sizes, onBuildLogs: (l) => lines.push(l.message) })
    .then(() => assert.fail('it must fail'), (e) => e)
  assert.deepEqual([e.name, e.message], ['BuildError', 'start command failed: error running start command: exit status 127'])
  assert.ok(e.stack.split('\n')[0].includes('templates.mjs'), e.stack)
  assert.ok(lines.includes('[start] [stdout]: so far'), lines.join('\n'))
})

testNatively('build in the background, status, tags', async () => {
  const info = await Template.buildInBackground(template().setStartCmd('lines 3', 'true'), 'sdk-tags:v1', { ...sizes, tags: ['default'] })
  assert.deepEqual(info.tags, ['v1', 'default'])
  const status = await until('the end', async () => {
    const s = await Template.getBuildStatus(info)
    return ['ready', 'error'].includes(s.status) && s
  })
  assert.deepEqual(status.logEntries.map((l) => l.message), ['line 0', 'line 1', 'line 2'])
  assert.deepEqual((await Template.assignTags('sdk-tags:v1', ['stable', 'next'])).tags, ['stable', 'next'])
  const tags = await Template.getTags(info.templateId)
  assert.deepEqual(tags.map((t) => t.tag).sort(), ['default', 'next', 'stable', 'v1'])
  assert.ok(tags.every((t) => t.buildId === info.buildId && t.createdAt instanceof Date))
  await Template.removeTags('sdk-tags', 'next')
  assert.equal((await Template.getTags('sdk-tags')).length, 3)
  const sb = await create({}, { create: (o) => Sandbox.create('sdk-tags:stable', o) })
  assert.equal((await sb.getInfo()).templateId, info.templateId)
  await assert.rejects(Sandbox.create('sdk-tags:next'), /tag/)
})

testNatively('a base that cannot be used is the fault of the line that names it', async () => {
  const named = async (t) => {
    const e = await Template.build(t, 'sdk-base', sizes).then(() => assert.fail('it must fail'), (e) => e)
    return [e.name, e.message, e.stack.split('\n')[0].includes('templates.mjs')]
  }
  assert.deepEqual(await named(Template().fromTemplate('sdk-nothing').runCmd('true')),
    ['BuildError', "fromTemplate: base template 'sdk-nothing' not found", true])
  assert.deepEqual((await named(Template().fromImage('localhost:5000/x'))).toSpliced(1, 1), ['BuildError', true])
})

testNatively('other keys', async () => {
  assert.equal(await Template.exists('sdk-web', other), false)
  await assert.rejects(Sandbox.create('sdk-web', other), /sdk-web/)
  await Template.build(template(), 'sdk-web', { ...sizes, ...other })
  await assert.rejects(Template.getTags((await Template.build(template(), 'sdk-mine', sizes)).templateId, other), /403/)
})

testNatively('skipCache and the default image', async () => {
  const info = await Template.build(Template().fromBaseImage().skipCache().runCmd('true'), 'sdk-default', sizes)
  assert.ok(info.buildId)
})

await finish('templates', native ? 60_000 : 1_500_000)
