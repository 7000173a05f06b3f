#!/usr/bin/env python3
"""Writes the files of tests/formats/files and their manifest.

Each line of the manifest: file, diagnostic id ("ok" if it must be read),
why it exists. tests/unit/test_formats.c reads every one of them. Run
without arguments to write, with --check to compare with what is there.
"""
import io
import json
import os
import struct
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = []
# What zlib packs may differ between its versions; only presence is compared.
PACKED = {'ok_packed.npz', 'bad_bomb.npz', 'bad_packed_cut.npz'}


def add(name, ident, why, data):
    FILES.append((name, ident, why, data))


# ---------------------------------------------------------------- safetensors
def st(header, data=b'', length=None):
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    n = len(header) if length is None else length
    return struct.pack('<Q', n) + header + data


def entry(dtype, shape, begin, end):
    return {'dtype': dtype, 'shape': shape, 'data_offsets': [begin, end]}


def safetensors():
    one = {'a': entry('F32', [2], 0, 8)}
    two = {'a': entry('F32', [2], 0, 8), 'b': entry('U8', [4], 8, 12)}
    ok = [
        ('plain', 'two tensors', st(two, bytes(12))),
        ('empty', 'no tensors at all', st({})),
        ('padded', 'spaces after the JSON, as writers align',
         st(json.dumps(one).encode() + b'   ', bytes(8))),
        ('leading_space', 'white space before the brace',
         st(b' \n' + json.dumps(one).encode(), bytes(8))),
        ('scalar', 'shape [] is one element',
         st({'a': entry('F64', [], 0, 8)}, bytes(8))),
        ('zero_size', 'a dim of 0 has no bytes',
         st({'a': entry('F32', [3, 0], 0, 0), 'b': entry('I8', [1], 0, 1)},
            bytes(1))),
        ('metadata', 'a map of texts',
         st(dict(two, __metadata__={'format': 'pt'}), bytes(12))),
        ('all_types', 'every dtype of the format', all_types()),
        ('unordered', 'the header need not be in the order of the data',
         st({'b': entry('U8', [4], 8, 12), 'a': entry('F32', [2], 0, 8)},
            bytes(12))),
        ('escaped_name', 'names are JSON texts',
         st(b'{"\\u00e9\\"":{"dtype":"U8","shape":[1],'
            b'"data_offsets":[0,1]}}', bytes(1))),
        ('zero_times_huge', 'a zero makes the whole product zero',
         st({'a': entry('F32', [0, 1 << 40, 1 << 20], 0, 0)})),
    ]
    for name, why, data in ok:
        add('ok_%s.safetensors' % name, 'ok', why, data)
    bad = [
        ('empty_file', 'F10', 'no byte at all', b''),
        ('seven_bytes', 'F10', 'the length itself is cut', bytes(7)),
        ('huge_header', 'F11', 'header of 2^63 bytes',
         struct.pack('<Q', 1 << 63)),
        ('over_limit', 'F11', 'one byte above the limit',
         struct.pack('<Q', 100000001) + b'{}'),
        ('header_over_file', 'F12', 'header longer than the file',
         st(b'{}', b'', 3)),
        ('not_utf8', 'F13', 'a byte that is no UTF-8',
         st(b'{"\xff":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
            bytes(1))),
        ('overlong_utf8', 'F13', 'a slash in two bytes', st(b'{"\xc0\xaf":1}')),
        ('not_json', 'F14', 'text that is no JSON', st(b'{hello}')),
        ('array', 'F14', 'JSON that is no object', st(b'[]')),
        ('no_header', 'F14', 'header of 0 bytes', st(b'')),
        ('trailing_text', 'F14', 'something after the object', st(b'{}{}')),
        ('bom', 'F14', 'a byte order mark', st(b'\xef\xbb\xbf{}')),
        ('cut_json', 'F14', 'the object is not closed',
         st(b'{"a":{"dtype":"U8"')),
        ('duplicate', 'F15', 'one name twice',
         st(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
            b'"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', bytes(2))),
        ('duplicate_escaped', 'F15', 'one name twice, once escaped',
         st(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
            b'"\\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
            bytes(2))),
        ('duplicate_key', 'F15', 'one key of an entry twice',
         st(b'{"a":{"dtype":"U8","dtype":"U8","shape":[1],'
            b'"data_offsets":[0,1]}}', bytes(1))),
        ('unknown_type', 'F16', 'a dtype that does not exist',
         st({'a': entry('F33', [2], 0, 8)}, bytes(8))),
        ('type_case', 'F16', 'dtypes are upper case',
         st({'a': entry('f32', [2], 0, 8)}, bytes(8))),
        ('negative_dim', 'F17', 'a negative dim',
         st({'a': entry('F32', [-2], 0, 8)}, bytes(8))),
        ('negative_offset', 'F17', 'a negative offset',
         st({'a': entry('F32', [2], -8, 0)}, bytes(8))),
        ('real_dim', 'F17', 'a dim with a fraction',
         st({'a': entry('F32', [2.5], 0, 8)}, bytes(8))),
        ('exponent_offset', 'F17', 'an offset with an exponent',
         st(b'{"a":{"dtype":"U8","shape":[100],"data_offsets":[0,1e2]}}',
            bytes(100))),
        ('dim_overflow', 'F18', 'a dim above 2^63',
         st(b'{"a":{"dtype":"U8","shape":[99999999999999999999],'
            b'"data_offsets":[0,1]}}', bytes(1))),
        ('product_overflow', 'F18', '2^64 elements wrap to 0',
         st({'a': entry('U8', [1 << 32, 1 << 32], 0, 0)})),
        ('bits_overflow', 'F18', 'the bits wrap, not the elements',
         st({'a': entry('F64', [1 << 61], 0, 0)})),
        ('size_short', 'F19', 'fewer bytes than the shape needs',
         st({'a': entry('F32', [2], 0, 4)}, bytes(4))),
        ('size_long', 'F19', 'more bytes than the shape needs',
         st({'a': entry('F32', [2], 0, 9)}, bytes(9))),
        ('reversed', 'F19', 'the end before the beginning',
         st({'a': entry('F32', [2], 8, 0)}, bytes(8))),
        ('hole', 'F20', 'four bytes between two tensors',
         st({'a': entry('F32', [1], 0, 4), 'b': entry('F32', [1], 8, 12)},
            bytes(12))),
        ('hole_at_start', 'F20', 'four bytes before the first',
         st({'a': entry('F32', [1], 4, 8)}, bytes(8))),
        ('overlap', 'F21', 'two tensors share bytes',
         st({'a': entry('F32', [2], 0, 8), 'b': entry('F32', [2], 4, 12)},
            bytes(12))),
        ('same_range', 'F21', 'two tensors in one place',
         st({'a': entry('F32', [1], 0, 4), 'b': entry('F32', [1], 0, 4)},
            bytes(4))),
        ('past_end', 'F22', 'a tensor beyond the file',
         st(one, bytes(7))),
        ('extra_data', 'F22', 'bytes that belong to no tensor',
         st(one, bytes(9))),
        ('extra_only', 'F22', 'data without tensors', st({}, bytes(1))),
        ('half_byte', 'F23', 'three elements of four bits',
         st({'a': entry('F4', [3], 0, 1)}, bytes(1))),
        ('six_bits', 'F23', 'two elements of six bits',
         st({'a': entry('F6_E2M3', [2], 0, 2)}, bytes(2))),
        ('metadata_number', 'F24', 'metadata that is a number',
         st({'__metadata__': {'a': 1}})),
        ('metadata_text', 'F24', 'metadata that is no object',
         st({'__metadata__': 'a'})),
        ('metadata_nested', 'F24', 'metadata that is an object within',
         st({'__metadata__': {'a': {}}})),
        ('no_dtype', 'F25', 'an entry without dtype',
         st({'a': {'shape': [1], 'data_offsets': [0, 1]}}, bytes(1))),
        ('no_offsets', 'F25', 'an entry without data_offsets',
         st({'a': {'dtype': 'U8', 'shape': [1]}}, bytes(1))),
        ('unknown_key', 'F25', 'strides do not exist',
         st({'a': dict(entry('U8', [1], 0, 1), strides=[1])}, bytes(1))),
        ('entry_number', 'F25', 'an entry that is a number', st({'a': 1})),
        ('three_offsets', 'F25', 'three offsets',
         st({'a': {'dtype': 'U8', 'shape': [1], 'data_offsets': [0, 1, 1]}},
            bytes(1))),
        ('shape_number', 'F25', 'a shape that is no array',
         st({'a': {'dtype': 'U8', 'shape': 1, 'data_offsets': [0, 1]}},
            bytes(1))),
        ('text_dim', 'F25', 'a dim that is text',
         st({'a': entry('U8', ['1'], 0, 1)}, bytes(1))),
        ('deep', 'F25', 'nesting where a number is wanted',
         st(b'{"a":{"dtype":"U8","shape":' + b'[' * 5000)),
    ]
    for name, ident, why, data in bad:
        add('bad_%s.safetensors' % name, ident, why, data)


def all_types():
    names = ('BOOL U8 I8 I16 U16 I32 U32 I64 U64 F16 BF16 F32 F64 C64 '
             'F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ F4 F6_E2M3 '
             'F6_E3M2').split()
    bits = {'16': 16, '32': 32, '64': 64}
    header, at = {}, 0
    for n in names:
        if n == 'F4':
            b = 4
        elif n.startswith('F6_'):
            b = 6
        else:
            b = bits.get(n[-2:], 8)
        size = 4 * b // 8
        header[n] = entry(n, [4], at, at + size)
        at += size
    return st(header, bytes(at))


# ------------------------------------------------------------- index of shards
def shards():
    good = st({'a': entry('F32', [2], 0, 8)}, struct.pack('<2f', 1.5, -2))
    add('shard_1.safetensors', 'ok', 'what the indexes below name', good)
    add('shard_2.safetensors', 'ok', 'the other one',
        st({'b': entry('U8', [2], 0, 2)}, b'\x01\x02'))

    def index(name, ident, why, weight_map):
        text = weight_map
        if not isinstance(text, bytes):
            text = json.dumps({'metadata': {'total_size': 10},
                               'weight_map': weight_map}).encode()
        add(name + '.index.json', ident, why, text)
    index('ok_two', 'ok', 'two shards',
          {'a': 'shard_1.safetensors', 'b': 'shard_2.safetensors'})
    index('bad_list', 'F26', 'an index that is no object', b'[]')
    index('bad_no_map', 'F26', 'an index without weight_map', b'{}')
    index('bad_map', 'F26', 'a weight_map that is no object',
          b'{"weight_map": 3}')
    index('bad_number', 'F26', 'a shard that is a number', {'a': 1})
    index('bad_twice', 'F05', 'one tensor twice',
          b'{"weight_map": {"a": "shard_1.safetensors", '
          b'"a": "shard_2.safetensors"}}')
    index('bad_parent', 'F27', 'a path upwards',
          {'a': '../files/shard_1.safetensors'})
    index('bad_absolute', 'F27', 'an absolute path',
          {'a': '/tmp/shard_1.safetensors'})
    index('bad_dots', 'F27', 'the folder above', {'a': '..'})
    index('bad_empty_name', 'F27', 'no name', {'a': ''})
    index('bad_backslash', 'F27', 'a path on other systems',
          {'a': '..\\shard_1.safetensors'})
    index('bad_absent', 'F29', 'the shard has no such tensor',
          {'c': 'shard_1.safetensors'})
    index('bad_missing_file', 'F01', 'the shard does not exist',
          {'a': 'shard_3.safetensors'})
    index('bad_shard', 'F20', 'a shard with a hole',
          {'b': 'bad_hole.safetensors'})
    index('bad_json', 'F04', 'an index that is no JSON', b'{"weight_map"')
    index('bad_deep', 'F06', 'an index that is nested too deeply',
          b'{"metadata": ' + b'[' * 100 + b']' * 100 + b'}')


# ---------------------------------------------------------------- npy and npz
def npy(header, data=b'', version=(1, 0), length=None, magic=b'\x93NUMPY'):
    h = header.encode()
    n = len(h) if length is None else length
    size = struct.pack('<H' if version[0] == 1 else '<I', n)
    return magic + bytes(version) + size + h + data


def head(descr, shape, order='False'):
    return "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n" % (
        descr, order, shape)


def npys():
    f4 = struct.pack('<6f', 1, 2, 3, 4, 5, 6)
    ok = [
        ('plain', 'two dims', npy(head('<f4', '(2, 3)'), f4)),
        ('fortran', 'columns first',
         npy(head('<f4', '(2, 3)', 'True'),
             struct.pack('<6f', 1, 4, 2, 5, 3, 6))),
        ('version_2', 'header length of 32 bits',
         npy(head('<f4', '(2, 3)'), f4, (2, 0))),
        ('version_3', 'UTF-8 header', npy(head('<f4', '(2, 3)'), f4, (3, 0))),
        ('scalar', 'shape ()', npy(head('<f8', '()'), bytes(8))),
        ('one_dim', 'shape (3,)', npy(head('|i1', '(3,)'), b'\x01\xff\x80')),
        ('zero', 'no elements', npy(head('<f4', '(0, 3)'))),
        ('bf16', 'bit patterns', npy(head('<u2', '(1,)'), b'\x80\x3f')),
        ('bool', 'two bools', npy(head('|b1', '(2,)'), b'\x00\x01')),
        ('double_quotes', 'both quotes are Python',
         npy('{"descr": "<i4", "fortran_order": False, "shape": (1,)}',
             bytes(4))),
    ]
    for name, why, data in ok:
        add('ok_%s.npy' % name, 'ok', why, data)
    bad = [
        ('empty', 'F40', 'no bytes', b''),
        ('magic', 'F40', 'another magic',
         npy(head('<f4', '(1,)'), bytes(4), magic=b'\x93NUMPX')),
        ('version_4', 'F41', 'a version that does not exist',
         npy(head('<f4', '(1,)'), bytes(4), (4, 0))),
        ('version_1_1', 'F41', 'a minor version that does not exist',
         npy(head('<f4', '(1,)'), bytes(4), (1, 1))),
        ('header_over_file', 'F42', 'header longer than the file',
         npy(head('<f4', '(1,)'), b'', length=60000)),
        ('cut_length', 'F42', 'the file ends in its header',
         npy('', b'', (2, 0))[:10]),
        ('huge_header', 'F42', 'header of 4 GiB',
         npy(head('<f4', '(1,)'), b'', (2, 0), 0xffffffff)),
        ('call', 'F43', 'Python that would run',
         npy("{'descr': __import__('os'), 'fortran_order': False, "
             "'shape': (1,)}")),
        ('no_dict', 'F43', 'a tuple', npy("('<f4', False, (1,))")),
        ('missing_key', 'F43', 'no shape',
         npy("{'descr': '<f4', 'fortran_order': False}")),
        ('unknown_key', 'F43', 'a fourth key',
         npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), "
             "'x': 1}", bytes(4))),
        ('twice', 'F43', 'a key twice',
         npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, "
             "'shape': (1,)}", bytes(4))),
        ('negative', 'F43', 'a negative dim', npy(head('<f4', '(-1,)'))),
        ('shape_int', 'F43', 'a shape that is no tuple',
         npy(head('<f4', '3'), bytes(12))),
        ('shape_parens', 'F43', '(3) is a number in Python',
         npy(head('<f4', '(3)'), bytes(12))),
        ('order', 'F43', 'fortran_order is a number',
         npy(head('<f4', '(1,)', '0'), bytes(4))),
        ('trailing', 'F43', 'something after the dict',
         npy(head('<f4', '(1,)') + 'x', bytes(4))),
        ('unclosed', 'F43', 'the dict is not closed',
         npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)")),
        ('struct', 'F44', 'a structured type',
         npy("{'descr': [('a', '<f4')], 'fortran_order': False, "
             "'shape': (1,)}", bytes(4))),
        ('complex', 'F44', 'complex numbers',
         npy(head('<c8', '(1,)'), bytes(8))),
        ('u4', 'F44', 'a type the language lacks',
         npy(head('<u4', '(1,)'), bytes(4))),
        ('no_order', 'F44', 'a type without byte order',
         npy(head('f4', '(1,)'), bytes(4))),
        ('object', 'F45', 'pickled objects', npy(head('|O', '(1,)'), b'\x80')),
        ('dim_overflow', 'F46', 'a dim above 2^63',
         npy(head('<f4', '(99999999999999999999,)'))),
        ('product_overflow', 'F46', '2^64 elements wrap to 0',
         npy(head('<f4', '(4294967296, 4294967296)'))),
        ('rank', 'F46', 'thirteen dims',
         npy(head('<f4', '(1,1,1,1,1,1,1,1,1,1,1,1,1)'), bytes(4))),
        ('short', 'F47', 'less data than the shape needs',
         npy(head('<f4', '(3,)'), bytes(11))),
        ('long', 'F47', 'more data than the shape needs',
         npy(head('<f4', '(3,)'), bytes(13))),
        ('claim', 'F47', 'a petabyte in a small file',
         npy(head('<f8', '(140737488355328,)'))),
        ('big_endian', 'F48', 'the other byte order',
         npy(head('>f4', '(1,)'), bytes(4))),
        ('bool_two', 'F62', 'a bool that is 2',
         npy(head('|b1', '(2,)'), b'\x00\x02')),
    ]
    for name, ident, why, data in bad:
        add('bad_%s.npy' % name, ident, why, data)
    f8 = npy(head('<f8', '(1000,)'), bytes(8000))
    small = npy(head('<f4', '(2, 3)'), f4)

    def npz(members, method):
        out = io.BytesIO()
        with zipfile.ZipFile(out, 'w', method) as z:
            for name, data in members:
                info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                info.compress_type = method
                z.writestr(info, data)
        return out.getvalue()
    both = [('a.npy', small), ('b.npy', f8)]
    stored = npz(both, zipfile.ZIP_STORED)
    packed = npz(both, zipfile.ZIP_DEFLATED)
    add('ok_stored.npz', 'ok', 'numpy.savez', stored)
    add('ok_packed.npz', 'ok', 'numpy.savez_compressed', packed)
    add('ok_comment.npz', 'ok', 'a comment behind the directory',
        stored[:-2] + b'\x02\x00ab')
    add('bad_no_zip.npz', 'F50', 'no archive', b'PK' + bytes(40))
    add('bad_cut.npz', 'F50', 'the directory is cut off', stored[:-30])
    at = stored.index(b'PK\x01\x02')
    flagged = bytearray(stored)
    flagged[at + 8] |= 1
    add('bad_encrypted.npz', 'F51', 'a member with a password',
        bytes(flagged))
    method = bytearray(stored)
    method[at + 10] = 12
    add('bad_method.npz', 'F51', 'bzip2', bytes(method))
    crc = bytearray(stored)
    crc[at + 16] ^= 1
    add('bad_crc.npz', 'F53', 'another checksum', bytes(crc))
    size = bytearray(packed)
    at = packed.index(b'PK\x01\x02')
    size[at + 24:at + 28] = struct.pack('<I', 0x7fffffff)
    add('bad_bomb.npz', 'F53', 'a size that no packed bytes can give',
        bytes(size))
    short = bytearray(packed)
    short[at + 20:at + 24] = struct.pack('<I', 20)
    add('bad_packed_cut.npz', 'F53', 'the packed bytes end too early',
        bytes(short))
    far = bytearray(stored)
    at = stored.index(b'PK\x01\x02')
    far[at + 42:at + 46] = struct.pack('<I', 0x7fffffff)
    add('bad_offset.npz', 'F53', 'a member beyond the file', bytes(far))
    with_same = bytearray(stored)
    second = stored.index(b'PK\x01\x02', at + 4)
    with_same[second + 46] = ord('a')
    add('bad_twice.npz', 'F50', 'one name twice', bytes(with_same))
    add('bad_member.npz', 'F40', 'a member that is no array',
        npz([('a.npy', b'hello world')], zipfile.ZIP_STORED))


# ---------------------------------------------------------------- JSON values
def values():
    def tensor(name, ident, why, text):
        add(name + '.json', ident, why, text.encode())
    tensor('ok_tensor', 'ok', 'every special value',
           '{"dtype": "f32", "shape": [2, 2], '
           '"data": [1.5, "inf", "-inf", "nan"]}')
    tensor('ok_late', 'ok', 'data before dtype',
           '{"data": [1, 2], "shape": [2], "dtype": "i8"}')
    tensor('ok_uniform', 'ok', 'generated elements',
           '{"dtype": "f32", "shape": [3], '
           '"uniform": {"seed": 1, "lo": 0, "hi": 1}}')
    tensor('ok_struct', 'ok', 'a struct in a struct',
           '{"a": {"dtype": "i32", "shape": [], "data": [7]}, '
           '"b": {"c": {"dtype": "bool", "shape": [2], '
           '"data": [true, 0]}}}')
    tensor('bad_no_dtype', 'F60', 'no dtype', '{"shape": [1], "data": [1]}')
    tensor('bad_both', 'F60', 'data and uniform',
           '{"dtype": "f32", "shape": [1], "data": [1], '
           '"uniform": {"seed": 1, "lo": 0, "hi": 1}}')
    tensor('bad_key', 'F60', 'an unknown key',
           '{"dtype": "f32", "shape": [1], "dat": [1]}')
    tensor('bad_dim', 'F60', 'a negative dim',
           '{"dtype": "f32", "shape": [-1], "data": []}')
    tensor('bad_rank', 'F60', 'thirteen dims',
           '{"dtype": "f32", "shape": [%s], "data": [1]}'
           % ', '.join('1' * 13))
    tensor('bad_size', 'F60', '2^64 elements wrap to 0',
           '{"dtype": "u8", "shape": [4294967296, 4294967296], "data": []}')
    tensor('bad_few', 'F61', 'fewer elements than the shape has',
           '{"dtype": "f32", "shape": [3], "data": [1, 2]}')
    tensor('bad_many', 'F61', 'more elements than the shape has',
           '{"dtype": "f32", "shape": [1], "data": [1, 2]}')
    tensor('bad_claim', 'F61', 'a petabyte in a small file',
           '{"dtype": "f64", "shape": [140737488355328], "data": [1]}')
    tensor('bad_uniform_claim', 'F61', 'a petabyte of generated elements',
           '{"dtype": "f64", "shape": [140737488355328], '
           '"uniform": {"seed": 1, "lo": 0, "hi": 1}}')
    tensor('bad_overflow', 'F62', 'a number beyond f16',
           '{"dtype": "f16", "shape": [1], "data": [70000]}')
    tensor('bad_byte', 'F62', '256 in u8',
           '{"dtype": "u8", "shape": [1], "data": [256]}')
    tensor('bad_fraction', 'F62', 'a fraction in i32',
           '{"dtype": "i32", "shape": [1], "data": [1.5]}')
    tensor('bad_word', 'F62', 'a text that is no number',
           '{"dtype": "f32", "shape": [1], "data": ["one"]}')
    tensor('bad_number_text', 'F62', 'a number in quotes',
           '{"dtype": "f32", "shape": [1], "data": ["1"]}')
    tensor('bad_null', 'F07', 'null for a number',
           '{"dtype": "f32", "shape": [1], "data": [null]}')
    tensor('bad_dtype', 'F63', 'a dtype that does not exist',
           '{"dtype": "float32", "shape": [1], "data": [1]}')
    tensor('bad_leaf', 'F07', 'a field that is a number', '{"a": 1}')
    tensor('bad_depth', 'F06', 'a struct a hundred deep',
           '{"a":' * 100 + '1' + '}' * 100)
    tensor('bad_twice', 'F05', 'a field twice', '{"a": {}, "a": {}}')
    tensor('bad_comma', 'F04', 'a comma before the end',
           '{"dtype": "f32", "shape": [1,], "data": [1]}')
    tensor('bad_surrogate', 'F04', 'half a character',
           '{"\\ud800": {}}')
    tensor('bad_zero_char', 'F04', 'U+0000 in a key', '{"\\u0000": {}}')
    tensor('bad_control', 'F04', 'a raw control character', '{"\x01": {}}')
    tensor('bad_leading_zero', 'F04', 'a number that begins with 0',
           '{"dtype": "f32", "shape": [1], "data": [01]}')
    tensor('bad_nan', 'F04', 'NaN without quotes',
           '{"dtype": "f32", "shape": [1], "data": [NaN]}')


def main():
    safetensors()
    shards()
    npys()
    values()
    folder = os.path.join(HERE, 'files')
    lines = ['%s\t%s\t%s\n' % f[:3] for f in FILES]
    want = {f[0]: f[3] for f in FILES}
    want['../manifest.txt'] = ''.join(lines).encode()
    if sys.argv[1:] == ['--check']:
        have = set(os.listdir(folder)) | {'../manifest.txt'}
        bad = sorted(have ^ set(want))
        for name in sorted((have & set(want)) - PACKED):
            with open(os.path.join(folder, name), 'rb') as f:
                if f.read() != want[name]:
                    bad.append(name)
        for name in bad:
            print('%s is not what make_hostile.py writes' % name)
        return 1 if bad else 0
    os.makedirs(folder, exist_ok=True)
    for name, data in want.items():
        with open(os.path.join(folder, name), 'wb') as f:
            f.write(data)
    return 0


if __name__ == '__main__':
    sys.exit(main())
