"""Pictures of Pillow's: in a cell, show() and save() to a path give the picture as a result, too.

Pillow is patched when a program imports it, for most kernels never need it. Only what a cell itself
saves is shown: libraries save pictures for their own purposes, matplotlib for one."""
import importlib.machinery
import os
import sys

MODULE = "PIL.Image"
SHOWN = ("1", "L", "LA", "P", "RGB", "RGBA", "I")  # modes that PNG has


def show(image):
    from IPython.display import display

    display(image if image.mode in SHOWN else image.convert("RGB"))


def patch(module, namespace):
    save_file = module.Image.save

    def save(self, fp, format=None, **options):
        save_file(self, fp, format, **options)
        if isinstance(fp, (str, os.PathLike)) and sys._getframe(1).f_globals is namespace:
            show(self)

    def show_here(self, title=None, **options):
        show(self)

    save.__doc__ = save_file.__doc__
    module.Image.save = save
    module.Image.show = show_here


class Finder:
    """Stands in front of the import system until the module is found for the first time."""

    def __init__(self, namespace):
        self.namespace = namespace

    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            sys.meta_path.remove(self)
            patch(module, self.namespace)

        spec.loader.exec_module = exec_module
        return spec


def watch(shell):
    if MODULE in sys.modules:
        patch(sys.modules[MODULE], shell.user_ns)
    else:
        sys.meta_path.insert(0, Finder(shell.user_ns))
