"""Dockerfiles for test_dockerfiles: idioms of those that people publish, with busybox in place of a distribution. Each is
a text, and arguments of the build. `FROM base` is the test's image. CONTEXT is the build's directory of all."""

# What buildah gets in place of a text: 1.28 knows no heredocs, no stages in other case, and no other escape in
# words.
INSTEAD = {
    "another escape": """FROM base
RUN echo 'C:\\temp' > /dir && echo next > /next
COPY main.c /main.c
""",
    "stages by number and case": """FROM base
RUN echo zero > /zero
FROM base as second
RUN echo one > /one
COPY --from=0 /zero /from-zero
FROM second AS third
RUN echo two > /two
FROM second
COPY --from=third /two /one /got/
COPY --from=1 /from-zero /renamed
""",
    "hard links where nothing can make them": """FROM base AS a
RUN mkdir /d && echo one > /d/one && ln /d/one /d/two
FROM scratch
COPY --from=a /d/one /got/one
COPY --from=a /d/two /got/two
""",
    "heredocs": """FROM base
RUN mkdir -p /made; echo "one $HOME" > /made/one; echo tabs > /made/tabs; echo "expanded by the shell: $HOME" > /made/two
RUN mkdir /copied; printf '$NAME stays\\n' > /copied/raw; echo "name goes" > /copied/cooked; chmod 644 /copied/*
""",
}

# path: kind, content or target or what is packed, mode
CONTEXT = {
    "main.c": ("file", "int main(void) { return 0; }\n", 0o644),
    "go.mod": ("file", "module example.test/app\n", 0o644),
    "go.sum": ("file", "sums\n", 0o600),
    "package.json": ("file", '{"name": "app"}\n', 0o644),
    "package-lock.json": ("file", "{}\n", 0o644),
    "requirements.txt": ("file", "flask==1\n", 0o644),
    "entry.sh": ("file", "#!/bin/sh\nexec \"$@\"\n", 0o755),
    "with blank.txt": ("file", "blank\n", 0o644),
    "src/app.js": ("file", "app\n", 0o644),
    "src/deep/er/app.js": ("file", "deeper\n", 0o640),
    "src/secret.env": ("file", "KEY=1\n", 0o600),
    "src/keep.env": ("file", "KEY=2\n", 0o644),
    "src/run": ("file", "#!/bin/sh\n", 0o755),
    "src/link": ("link", "deep/er", 0),
    "src/dangling": ("link", "/nowhere/at/all", 0),
    "src/file-link": ("link", "app.js", 0),
    "src/empty": ("folder", None, 0o755),
    "src/sticky": ("folder", None, 0o1777),
    "conf/a.conf": ("file", "a\n", 0o644),
    "conf/b.conf": ("file", "b\n", 0o644),
    "conf/c.txt": ("file", "c\n", 0o644),
    "node_modules/left/pad.js": ("file", "pad\n", 0o644),
    ".git/HEAD": ("file", "ref\n", 0o644),
    "notes.md": ("file", "notes\n", 0o644),
    "README.md": ("file", "readme\n", 0o644),
    ".dockerignore": ("file", "# what is not sent\n.git\n**/node_modules\n*.md\n!README.md\nsrc/*.env\n!src/keep.env\n", 0o644),
    "rootfs.tar.gz": ("tar", "conf", 0o644),
    "marked/file": ("file", "marked\n", 0o644),
    "marked/able": ("file", "able\n", 0o755),
    "marked/below/file": ("file", "below\n", 0o644),
    "marked.tar": ("tar", "marked", 0o644),
    "links/one": ("file", "linked\n", 0o644),
    "links/below/two": ("hard", "links/one", 0),
    "links/three": ("hard", "links/one", 0),
    "links/else": ("file", "linked\n", 0o644),
}

# path in CONTEXT: extended attributes. The capability is cap_net_bind_service=ep.
XATTRS = {
    "marked/file": {"user.mark": b"text", "trusted.mark": b"stays"},
    "marked/able": {"security.capability": bytes.fromhex("0100000200040000000000000000000000000000")},
    "marked/below": {"user.folder": b"1"},
}

DOCKERFILES = {
    "extended attributes": ("""FROM base AS a
COPY marked /kept/
FROM base
COPY marked /context/
COPY --chown=me:mine --chmod=750 marked/able /owned/
COPY --from=a /kept /stage/
COPY --from=a --chown=7:8 /kept/file /kept/able /etc/marked /files/
""",),
    "archives": ("""FROM base
ADD rootfs.tar.gz /plain/
ADD marked.tar /marked/
ADD marked.tar rootfs.tar.gz /both/
""",),
    "hard links": ("""FROM base AS a
RUN mkdir -p /d/e && echo one > /d/one && ln /d/one /d/e/two && ln /d/one /d/three && ln -s one /d/soft && echo one > /d/other
FROM base
COPY --from=a /d /got
COPY --from=a --chown=me:mine /d /got/owned/
COPY --from=a /d/one /d/three /apart/
COPY links /context/
COPY links/one links/three /separate/
""",),
    "hard links where nothing can make them": ("""FROM base AS a
RUN mkdir /d && echo one > /d/one && ln /d/one /d/two
FROM scratch
COPY --from=a /d /got
""",),
    "Debian packages": ("""FROM base
ENV DEBIAN_FRONTEND=noninteractive
RUN set -eux; \\
	mkdir -p /var/lib/apt/lists /usr/share/doc/tool /usr/bin; \\
	echo list > /var/lib/apt/lists/index; \\
	# what a package brings
	printf '#!/bin/sh\\necho tool\\n' > /usr/bin/tool; \\
	chmod 755 /usr/bin/tool; \\
	echo "$DEBIAN_FRONTEND" > /usr/share/doc/tool/changelog \\
	&& rm -rf /var/lib/apt/lists/*
""",),
    "Alpine packages": ("""FROM base
RUN mkdir -p /lib/apk/db /usr/lib && \\
    echo 'P:libx' >> /lib/apk/db/installed && \\
    echo x > /usr/lib/libx.so.1.2.3 && \\
    ln -s libx.so.1.2.3 /usr/lib/libx.so.1 && \\
    ln -s libx.so.1 /usr/lib/libx.so && \\
    mkdir /.build-deps && rm -r /.build-deps
""",),
    "a Go program": ("""FROM base AS build
WORKDIR /go/src/app
COPY go.mod go.sum ./
RUN cat go.mod go.sum > /go/cache
COPY . .
RUN mkdir -p /out && cat main.c > /out/app && chmod +x /out/app

FROM scratch
COPY --from=build /out/app /app
COPY --from=build /etc/passwd /etc/passwd
USER 65532:65532
ENTRYPOINT ["/app"]
""",),
    "a Node program": ("""ARG NODE_ENV=production
FROM base AS deps
WORKDIR /app
COPY package.json package-lock.json* ./
RUN mkdir -p node_modules/a/b && echo module > node_modules/a/b/index.js && ln -s a node_modules/alias

FROM base AS builder
ARG NODE_ENV
WORKDIR /app
COPY --from=deps /app/node_modules ./node_modules
COPY . .
RUN mkdir .next && echo "$NODE_ENV" > .next/BUILD && cp -r src .next/static

FROM base AS runner
WORKDIR /app
RUN echo nodejs:x:1001: >> /etc/group && echo nextjs:x:1001:1001::/:/bin/sh >> /etc/passwd
COPY --from=builder --chown=nextjs:nodejs /app/.next ./.next
COPY --from=builder --chown=1001 /app/package.json ./
USER nextjs
EXPOSE 3000
CMD ["node", "server.js"]
""", "NODE_ENV=test"),
    "a Python program": ("""FROM base
ENV PYTHONUNBUFFERED=1 \\
    PIP_NO_CACHE_DIR=off
WORKDIR /usr/src/app
COPY requirements.txt ./
RUN mkdir -p /usr/local/lib/site-packages && cp requirements.txt /usr/local/lib/site-packages/flask.py
COPY . .
CMD [ "python", "./app.py" ]
""",),
    "users": ("""FROM base
RUN echo worker:x:1234:1234::/home/worker:/bin/sh >> /etc/passwd && printf 'worker:x:1234:\\nteam:x:99:worker\\n' >> /etc/group
RUN mkdir -p /home/worker && chown worker:worker /home/worker
RUN mkdir /data && chown worker:team /data && chmod 2775 /data
USER worker
RUN id -u > /data/uid; id -G > /data/groups; umask > /data/umask; touch /home/worker/mine
USER 70
RUN id -u > /tmp/uid; id -g > /tmp/gid
USER me:others
RUN id -g > /tmp/gid-named; echo "$HOME" > /tmp/home
USER 4000:5000
RUN touch /tmp/number
USER root
RUN chown -R me:mine /home/worker && chmod 4755 /bin/busybox
""",),
    "WORKDIR": ("""FROM base
ENV TOP=/top
WORKDIR $TOP/a
WORKDIR b/../c
RUN pwd > where
WORKDIR /
RUN pwd > /root/where
WORKDIR /tmp
RUN pwd > where
USER me
WORKDIR /made/by/me
USER root
RUN mkdir -m 700 /closed
WORKDIR /closed/inner
""",),
    "ENV and ARG": ("""ARG VERSION=1.0
ARG UNUSED
FROM base
ARG VERSION
ARG NAME=default
ARG EMPTY
ENV A=one B="two words" C=three\\ words
ENV OLD form with blanks
ENV D=${A}-${B:-none} E=${MISSING:-fallback} F=${A:+set} G=${MISSING:+set} H="\\$A"
ENV A=changed I=$A
RUN echo "$VERSION|$NAME|$EMPTY|$A|$B|$C|$OLD|$D|$E|$F|$G|$H|$I" > /values
RUN echo '$A' "\\$A" \\$A > /quotes
COPY conf/${NAME}.conf /etc/$NAME/
WORKDIR /v/${VERSION}
ENV NAME=overridden
RUN echo $NAME > name
""", "NAME=a", "VERSION=2.5"),
    "heredocs": ("""# syntax=docker/dockerfile:1.4
FROM base
RUN <<END
set -e
mkdir -p /made
echo "one $HOME" > /made/one
END
RUN <<-END
	echo tabs > /made/tabs
	END
RUN cat <<END > /made/two
expanded by the shell: $HOME
END
ENV NAME=name
COPY <<"raw" <<cooked /copied/
$NAME stays
raw
$NAME goes
cooked
""",),
    "files": ("""FROM base
COPY main.c /one
COPY main.c go.mod /several/
COPY main.c /folder/
COPY main.c /folder/renamed.c
COPY entry.sh /usr/local/bin/
COPY go.sum /etc/
COPY ["with blank.txt", "/with blank/"]
COPY ./src/../main.c /dotted
COPY /main.c /rooted
""",),
    "folders": ("""FROM base
COPY src /a
COPY src/ /b/
COPY src /b/
COPY src conf /both/
COPY src/. /dot/
WORKDIR /work
COPY src .
COPY conf ./conf
COPY conf sub/
COPY . /everything
""",),
    "patterns": ("""FROM base
COPY conf/*.conf /conf/
COPY conf/?.txt /question/
COPY conf/[ab].conf /class/
COPY *.json /json/
COPY s*/app.js /star/
COPY package*.json main.? /mixed/
COPY src/d*p /pattern-of-folder/
COPY conf/[^a].conf /not/
""",),
    "what is ignored": ("""FROM base
COPY . /all
COPY src /src
COPY *.md /md/
""",),
    "owners": ("""FROM base
RUN echo app:x:500:500::/:/bin/sh >> /etc/passwd
COPY --chown=app main.c /app/
COPY --chown=app:others src /app/src/
COPY --chown=7:8 conf /numbers/
COPY --chown=9 go.mod /nine
COPY --chown=me entry.sh /home/me/bin/
USER app
COPY main.c /as-app/main.c
""",),
    "modes": ("""FROM base
COPY --chmod=0755 main.c /run-main
COPY --chmod=600 conf/a.conf /etc/private/
COPY entry.sh src/run /bin/
RUN chmod 2750 /bin/run && chmod 1777 /etc/private
""",),
    "links": ("""FROM base
RUN mkdir -p /real/dir && ln -s /real/dir /alias && ln -s dir /real/relative && echo old > /real/file && \\
    ln -s file /real/file-link && ln /real/file /real/hard
COPY src/link /copied-folder
COPY src/file-link /copied-file
COPY src /all
COPY main.c /alias/
COPY go.mod /alias/new/
RUN ln -s /outside/none /dangling && ln -sf app.js /all/file-link
""",),
    "over what is there": ("""FROM base
RUN mkdir -p -m 711 /have/sub && echo old > /have/a.conf && chmod 400 /have/a.conf && chown -R 11:12 /have
COPY conf /have
COPY conf/c.txt /have/sub/
COPY main.c /have/a.conf
""",),
    "what goes": ("""FROM base
RUN rm /etc/marked /bin/dd && rm -rf /var && mv /usr /moved && mkdir /usr
RUN rm -r /moved && touch /moved
RUN mkdir /swap && touch /swap/a
RUN rm -r /swap && ln -s tmp /swap
""",),
    "stages by number and case": ("""FROM base
RUN echo zero > /zero
FROM base as Second
RUN echo one > /one
COPY --from=0 /zero /from-zero
FROM Second AS third
RUN echo two > /two
FROM second
COPY --from=third /two /one /got/
COPY --from=1 /from-zero /renamed
""",),
    "settings of a stage": ("""FROM base AS first
ENV SAID=hello
ARG GONE=yes
WORKDIR /first
USER me
SHELL ["/bin/sh", "-ec"]
FROM first
RUN echo "$SAID|$GONE|$(pwd)|$(id -u)" > /tmp/inherited
""",),
    "from another stage": ("""FROM base AS made
RUN mkdir -p /out/a/b /out/c && echo 1 > /out/a/b/1 && echo 2 > /out/c/2 && chown -R 21:22 /out && chmod 750 /out/a && \\
    ln -s a/b/1 /out/link && ln -s /out/c /out/abs
FROM base
COPY --from=made /out /whole
COPY --from=made /out/a /out/c /merged/
COPY --from=made /out/link /followed
COPY --from=made /out/*/2 /globbed/
COPY --from=made --chown=0:0 --chmod=640 /out/c/2 /changed
""",),
    "shells": ("""FROM base
RUN ["/bin/sh", "-c", "echo exec $HOME > /exec"]
RUN ["/bin/mkdir", "/with blank"]
SHELL ["/bin/ash", "-e", "-c"]
RUN echo $0 > /shell; true && echo "two" >> /shell
RUN echo a; \\

    echo b > /continued
# a comment

RUN echo one \\
# in between
    two > /commented
""",),
    "another escape": ("""# escape=`
FROM base
ENV DIR=C:\\temp
RUN echo "$DIR" > /dir && `
    echo next > /next
COPY main.c `
     /main.c
""",),
    "marks of what nobody runs": ("""FROM base
LABEL org.opencontainers.image.title="a b" version=1
EXPOSE 80/tcp 443
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s CMD true
MAINTAINER somebody
CMD echo $HOME
RUN touch /ran
""",),
    "special files": ("""FROM base
RUN mkfifo -m 640 /pipe && touch /-dash '/quo"te' && mkdir -p "/a b/c" && chmod 0 /-dash
RUN seq 1 2000 > /numbers && dd if=/dev/null of=/sparse bs=1 count=0 seek=1000000
""",),
    "marks of the base": ("""FROM base
RUN echo more >> /etc/marked
COPY main.c /etc/
RUN chmod 600 /etc/passwd
""",),
}
